package org.slf4j.impl;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.slf4j.ILoggerFactory;
import org.slf4j.Logger;
import org.slf4j.spi.LoggerFactoryBinder;

/** Keeps what is logged, at every level, while a test asks for it. */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    public static final String REQUESTED_API_VERSION = "1.7";
    public static final Queue<String> LINES = new ConcurrentLinkedQueue<>();
    public static volatile boolean isKeeping;

    public static StaticLoggerBinder getSingleton() {
        return new StaticLoggerBinder();
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return name -> (Logger) Proxy.newProxyInstance(
            Logger.class.getClassLoader(), new Class<?>[] {Logger.class},
            (proxy, method, given) -> {
                if (method.getReturnType() == boolean.class) {
                    return isKeeping;
                }
                if (method.getReturnType() == void.class && isKeeping) {
                    LINES.add(method.getName() + " " + name + " " + text(given));
                }
                return method.getReturnType() == String.class ? name : null;
            });
    }

    private static String text(Object[] given) {
        StringWriter text = new StringWriter();
        for (Object one : given) {
            text.append(one instanceof Object[] ? Arrays.toString((Object[]) one) : "" + one);
            if (one instanceof Throwable) {
                ((Throwable) one).printStackTrace(new PrintWriter(text, true));
            }
        }
        return text.toString();
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return StaticLoggerBinder.class.getName();
    }
}
