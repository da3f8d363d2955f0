package org.tierledger.kafka;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Streams to hosts, each opened when it is needed. Any host takes every call, so one
 * conversation, the home, is always kept; those with other hosts save a hop. Runs on the loop.
 */
final class Doors {
    private static final int LEARNT_MAX = 64;
    private static final long PAUSE_MS = 50;
    private static final long PAUSE_MAX_MS = 1_000;

    private final Logger log = LoggerFactory.getLogger(Doors.class);
    private final Loop loop;
    private final Settings settings;
    private final Metrics metrics;
    private final Runnable onHome;
    private final Set<String> learnt = new LinkedHashSet<>();
    private final Map<String, Conversation> conversations = new HashMap<>();
    private final Map<String, FeedStream> feeds = new HashMap<>();
    /** Doors that failed to open within the last second; they are not tried. */
    private final Set<String> resting = new HashSet<>();
    private Conversation home;
    private boolean isClosed;
    private volatile boolean isAway;

    /** {@code onHome} runs each time that a home conversation has been opened. */
    Doors(Loop loop, Settings settings, Metrics metrics, Runnable onHome) {
        this.loop = loop;
        this.settings = settings;
        this.metrics = metrics;
        this.onHome = onHome;
    }

    /** Whether the last round of attempts reached no host. Safe for threads. */
    boolean isAway() {
        return isAway;
    }

    /** Open a home conversation with some host; retried with a growing pause. */
    void seek(int attempt) {
        if (isClosed) {
            return;
        }
        List<String> doors = candidates();
        Conversation tried = conversation(doors.get(attempt % doors.size()));
        tried.opened.whenComplete((opened, error) -> {
            if (error == null) {
                home = tried;
                isAway = false;
                log.info("tierledger answers at {}", tried.door);
                onHome.run();
                return;
            }
            if (attempt + 1 >= doors.size() && !isAway && !isClosed) {
                isAway = true;
                log.warn("No host of tierledger answers; the last: {}", error.getMessage());
            }
            long pause = Math.min(PAUSE_MS << Math.min(attempt, 10), PAUSE_MAX_MS);
            loop.after(pause, () -> seek(attempt + 1));
        });
    }

    /** The open conversation at {@code door}, else the home conversation, else null. */
    Conversation at(String door) {
        if (door != null && !isClosed && !resting.contains(door)) {
            Conversation better = conversation(door);
            if (better.isOpen()) {
                return better;
            }
        }
        return home != null && home.isOpen() ? home : null;
    }

    /** The feed stream of a door; if that is empty, each attempt takes another door. */
    FeedStream feed(String door, int attempt) {
        List<String> doors = candidates();
        String chosen = door.isEmpty() ? doors.get(attempt % doors.size()) : door;
        FeedStream stream = feeds.get(chosen);
        if (stream == null || stream.ended != null) {
            stream = new FeedStream(chosen, loop, settings);
            feeds.put(chosen, stream);
            stream.open();
        }
        return stream;
    }

    void learn(String door) {
        if (!door.isEmpty() && learnt.add(door) && learnt.size() > LEARNT_MAX) {
            learnt.remove(learnt.iterator().next());
        }
    }

    /** End all streams for good; returns those that were open. */
    List<DoorStream> close() {
        isClosed = true;
        CallFailed closed = CallFailed.notReady("the plugin was closed");
        List<DoorStream> open = new ArrayList<>(conversations.values());
        open.addAll(feeds.values());
        open.forEach(one -> one.end(closed));
        return open;
    }

    private List<String> candidates() {
        Set<String> doors = new LinkedHashSet<>();
        conversations.values().stream().filter(DoorStream::isOpen)
            .forEach(one -> doors.add(one.door));
        doors.addAll(settings.bootstrap);
        doors.addAll(learnt);
        return new ArrayList<>(doors);
    }

    private Conversation conversation(String door) {
        Conversation found = conversations.get(door);
        if (found != null) {
            return found;
        }
        Conversation made = new Conversation(door, loop, settings);
        conversations.put(door, made);
        made.over.thenAccept(why -> {
            conversations.remove(door, made);
            if (made.greeting == null) {
                resting.add(door);
                loop.after(PAUSE_MAX_MS, () -> resting.remove(door));
            }
            if (made == home) {
                home = null;
                metrics.reconnects.increment();
                loop.run(() -> seek(0));
            }
        });
        made.open();
        return made;
    }
}
