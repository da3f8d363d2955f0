// A link from another site brings no cookie of the session; asked from here, it comes along.
"use strict";
fetch("/session").then((answer) => { if (answer.ok) location.replace(location.href); }).catch(() => {});
