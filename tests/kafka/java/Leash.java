import java.io.InputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs a main class and halts the JVM as soon as standard input ends, so that no broker outlives the test run
 * that started it, however that run ended.
 *
 * usage: Leash MAIN_CLASS ARG...
 * -Dkgm.format=ARGS       first format the log folder: arguments of StorageTool, separated by spaces
 * -Dkgm.zookeeper=FILE    first start ZooKeeper in this JVM
 */
public final class Leash {
    public static void main(String[] args) throws Exception {
        daemon("leash", () -> {
            InputStream in = System.in;
            while (in.read() >= 0) {
                // Nothing is ever written; only the end of input counts.
            }
            Runtime.getRuntime().halt(143);
        });
        String format = System.getProperty("kgm.format");
        if (format != null) {
            List<String> arguments = new ArrayList<>(List.of("format"));
            arguments.addAll(List.of(format.split(" ")));
            Object status = Class.forName("kafka.tools.StorageTool")
                .getMethod("execute", String[].class, PrintStream.class)
                .invoke(null, arguments.toArray(new String[0]), System.out);
            if (!Integer.valueOf(0).equals(status)) {
                System.exit(1);
            }
        }
        String zookeeper = System.getProperty("kgm.zookeeper");
        if (zookeeper != null) {
            daemon("zookeeper", () -> run("org.apache.zookeeper.server.quorum.QuorumPeerMain", zookeeper));
        }
        String[] rest = java.util.Arrays.copyOfRange(args, 1, args.length);
        run(args[0], rest);
    }

    private interface Body {
        void run() throws Exception;
    }

    private static void daemon(String name, Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception e) {
                e.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void run(String mainClass, String... args) throws Exception {
        Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) args);
    }
}
