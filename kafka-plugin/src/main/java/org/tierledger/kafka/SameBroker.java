package org.tierledger.kafka;

import java.lang.management.ManagementFactory;
import java.util.Set;
import javax.management.InstanceAlreadyExistsException;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.StandardMBean;

/**
 * How the plugin and the guard of one broker find each other. Each may have a class loader of its
 * own, and so statics of its own; what they share is the JVM's MBean server.
 */
final class SameBroker {
    /** The type of what answers for the plugin; see {@link DeletionsMBean}. */
    static final String LEDGER = "Ledger";
    /** The type of a guard's mark. */
    static final String GUARD = "Guard";

    private static final String DOMAIN = "org.tierledger.guard";
    private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();

    private SameBroker() {}

    /** Register {@code bean}; several of one type and broker are told apart by their instance. */
    static <T> ObjectName register(String type, int brokerId, T bean, Class<T> kind) {
        try {
            ObjectName name = new ObjectName(
                DOMAIN + ":type=" + type + ",broker=" + brokerId
                    + ",instance=" + Integer.toHexString(System.identityHashCode(bean)));
            return SERVER.registerMBean(new StandardMBean(bean, kind), name).getObjectName();
        } catch (InstanceAlreadyExistsException error) {
            throw new IllegalStateException("registered twice", error);
        } catch (JMException error) {
            throw new IllegalStateException(error);
        }
    }

    static void unregister(ObjectName name) {
        try {
            SERVER.unregisterMBean(name);
        } catch (InstanceNotFoundException gone) {
            // As it should be.
        } catch (JMException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The one of that type and broker; null if there is none, or more than one. */
    static ObjectName only(String type, int brokerId) {
        try {
            Set<ObjectName> found = SERVER.queryNames(
                new ObjectName(DOMAIN + ":type=" + type + ",broker=" + brokerId + ",*"), null);
            return found.size() == 1 ? found.iterator().next() : null;
        } catch (JMException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The result of an operation of {@code bean}, whose exceptions are wrapped. */
    static Object invoke(ObjectName bean, String operation, Object[] given, String[] signature)
        throws JMException {
        return SERVER.invoke(bean, operation, given, signature);
    }
}
