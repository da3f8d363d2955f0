package org.tierledger.kafka;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tierledger.door.v1.Attend;
import org.tierledger.door.v1.Call;
import org.tierledger.door.v1.Fate;

/**
 * Tells the coordinator how this broker stands, and hears who owns the cluster's metadata. While
 * no host answers, the last word stands. All of it happens on the loop.
 */
final class Owner {
    private static final int DEADLINE_MS = 2_000;
    private static final long PAUSE_MS = 500;
    private static final long HOMELESS_PAUSE_MS = 50;

    private final Logger log = LoggerFactory.getLogger(Owner.class);
    private final Settings settings;
    private final Loop loop;
    private final Roles roles;
    private final Deciding deciding;
    /** Why there was no word last; logged once. */
    private String missed;

    Owner(Settings settings, Loop loop, Roles roles, Deciding deciding) {
        this.settings = settings;
        this.loop = loop;
        this.roles = roles;
        this.deciding = deciding;
    }

    /** Tell and hear, now and from now on. */
    void attend() {
        Conversation home = roles.doors().at(null);
        if (home == null) {
            loop.after(HOMELESS_PAUSE_MS, this::attend);
            return;
        }
        Decision stand = deciding.decision(); // Before what is under way is looked at.
        home.ask(Call.newBuilder().setDeadlineMs(DEADLINE_MS).setAttend(Attend.newBuilder()
            .setBrokerId(settings.brokerId)
            .setIncarnation(roles.incarnation())
            .setMode(settings.mode)
            .setNumber(stand.number)
            .setIsIdle(stand.writes == Decision.By.NOBODY && deciding.isIdle(stand))
        )).whenComplete((answer, error) -> {
            boolean isNews = error == null && deciding.hear(answer.getOwnerWord());
            if (error != null) {
                missed((CallFailed) error);
            }
            loop.after(isNews ? 0 : PAUSE_MS, this::attend);
        });
    }

    private void missed(CallFailed error) {
        if (error.fate == Fate.FENCED_OFF) {
            roles.failed(error);
        } else if (!error.getMessage().equals(missed)) {
            missed = error.getMessage();
            log.warn("No word on who owns the cluster's metadata: {}", missed);
        }
    }
}
