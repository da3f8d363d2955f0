// A button at each block of commands that copies them: of a session with prompts, what was typed.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div:not(.highlight-text) > div.highlight")) {
    const text = block.querySelector("pre").innerText;
    const typed = text.split("\n").filter((line) => line.startsWith("$ "));
    const button = document.createElement("button");
    button.className = "copies";
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      const copied = typed.length ? typed.map((line) => line.slice(2) + "\n").join("") : text;
      try {
        await navigator.clipboard.writeText(copied);
        button.textContent = "copied";
      } catch { // Not allowed here: the reader's own keys are.
        getSelection().selectAllChildren(block.querySelector("pre"));
        button.textContent = "press Ctrl+C";
      }
      setTimeout(() => { button.textContent = "copy"; }, 3000);
    });
    block.append(button);
  }
});
