package acidctl;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.security.PrivilegedExceptionAction;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.hdfs.tools.DFSHAAdmin;
import org.apache.hadoop.hdfs.tools.DFSck;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * `hdfs dfs`, `dfsadmin`, `fsck`, `haadmin` and our own verbs in one JVM: a second faster per call.
 *
 * Each line of input is a call: the user (empty: who runs this), the program and its arguments, each encoded as
 * in a URL. Each line of output is its answer: the exit code and what it printed, encoded likewise.
 */
public final class Console {
    private static final String TEXT = "UTF-8";

    private Console() {}

    public static void main(String[] login) throws Exception {
        PrintStream answers = System.out;
        if (login.length == 2) {
            UserGroupInformation.setConfiguration(new HdfsConfiguration());
            UserGroupInformation.loginUserFromKeytab(login[0], login[1]);
        }
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, TEXT));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            String[] words = line.split(" ", -1);
            for (int i = 0; i < words.length; i++) {
                words[i] = URLDecoder.decode(words[i], TEXT);
            }
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            int code = runAs(words, new PrintStream(said, true, TEXT));
            answers.println(code + " " + URLEncoder.encode(said.toString(TEXT), TEXT));
            answers.flush();
        }
    }

    private static int runAs(String[] words, PrintStream out) {
        String[] arguments = new String[words.length - 2];
        System.arraycopy(words, 2, arguments, 0, arguments.length);
        PrintStream oldOut = System.out;
        PrintStream oldErr = System.err;
        System.setOut(out);
        System.setErr(out);
        try {
            if (words[0].isEmpty()) {
                return run(words[1], arguments, out);
            }
            UserGroupInformation user = UserGroupInformation.createRemoteUser(words[0]);
            try {
                return user.doAs((PrivilegedExceptionAction<Integer>) () -> run(words[1], arguments, out));
            } finally {
                FileSystem.closeAllForUGI(user);
            }
        } catch (Exception error) {
            error.printStackTrace(out);
            return 255;
        } finally {
            System.setOut(oldOut);
            System.setErr(oldErr);
        }
    }

    private static int run(String program, String[] arguments, PrintStream out) throws Exception {
        Configuration conf = new HdfsConfiguration();
        Tool tool;
        if (program.equals("dfs")) {
            tool = new FsShell();
        } else if (program.equals("dfsadmin")) {
            tool = new DFSAdmin();
        } else if (program.equals("fsck")) {
            tool = new DFSck(conf, out);
        } else if (program.equals("haadmin")) {
            tool = new DFSHAAdmin();
        } else {
            // put, get, remove, list
            tool = new Trees(conf, program, out);
        }
        return ToolRunner.run(conf, tool, arguments);
    }
}
