package org.tierledger.kafka;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The one thread that owns the protocol's state, and the threads that read from sockets. */
final class Loop {
    private final Logger log = LoggerFactory.getLogger(Loop.class);
    private final ScheduledThreadPoolExecutor timer;
    private final ExecutorService transports;

    Loop(String name) {
        timer = new ScheduledThreadPoolExecutor(
            1, daemons(name), new ThreadPoolExecutor.DiscardPolicy());
        timer.setRemoveOnCancelPolicy(true);
        timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
        transports = Executors.newCachedThreadPool(daemons(name + "-transport"));
    }

    ScheduledThreadPoolExecutor timer() {
        return timer;
    }

    ExecutorService transports() {
        return transports;
    }

    void run(Runnable work) {
        timer.execute(guarded(work));
    }

    Future<?> after(long ms, Runnable work) {
        return timer.schedule(guarded(work), ms, TimeUnit.MILLISECONDS);
    }

    /** End all threads; tasks that have not begun are dropped. */
    void close() {
        timer.shutdown();
        transports.shutdown();
        try {
            // Not ||: both are waited for.
            if (!timer.awaitTermination(2, TimeUnit.SECONDS)
                | !transports.awaitTermination(2, TimeUnit.SECONDS)) {
                timer.shutdownNow();
                transports.shutdownNow();
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private Runnable guarded(Runnable work) {
        return () -> {
            try {
                work.run();
            } catch (RuntimeException error) {
                log.error("The tierledger plugin failed; the rest of it goes on", error);
            }
        };
    }

    static ThreadFactory daemons(String name) {
        return work -> {
            Thread thread = new Thread(work, name);
            thread.setDaemon(true);
            return thread;
        };
    }
}
