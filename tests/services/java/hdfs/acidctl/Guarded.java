package acidctl;

import java.io.IOException;
import java.util.Arrays;

/** Runs another class's main, and ends the JVM when standard input does: no daemon outlives who started it. */
public final class Guarded {
    private Guarded() {}

    public static void main(String[] arguments) throws Exception {
        Thread guard = new Thread(Guarded::endWithInput, "guard");
        guard.setDaemon(true);
        guard.start();
        Class.forName(arguments[0])
                .getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(arguments, 1, arguments.length));
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException error) {
            // It is as good as at its end.
        }
        Runtime.getRuntime().halt(0);
    }
}
