package acidctl;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.ql.Driver;
import org.apache.hadoop.hive.ql.exec.FetchOperator;
import org.apache.hadoop.hive.ql.exec.FetchTask;
import org.apache.hadoop.hive.ql.processors.CommandProcessorResponse;
import org.apache.hadoop.hive.ql.session.SessionState;

/** One Hive session: a thread of its own, since Hive binds session and transaction manager to the thread. */
public final class HiveSession implements AutoCloseable {
    private final ExecutorService thread;
    private final HiveConf conf;
    private Driver driver;
    private List<String> names = Collections.emptyList();
    private List<String> snapshot = Arrays.asList(null, null);

    public HiveSession(String name, Map<String, String> settings) {
        thread = Executors.newSingleThreadExecutor(task -> {
            Thread created = new Thread(task, "hive-session-" + name);
            created.setDaemon(true);
            return created;
        });
        conf = new HiveConf();
        settings.forEach(conf::set);
        conf.set("list.sink.output.formatter", JsonFormatter.class.getName());
        inThread(() -> {
            SessionState state = new SessionState(conf);
            state.setIsSilent(true);
            SessionState.start(state);
            return null;
        });
    }

    /** Changes a setting of this session. */
    public void set(String key, String value) {
        inThread(() -> {
            conf.set(key, value);
            SessionState.get().getConf().set(key, value);
            return null;
        });
    }

    /** Runs one statement; the driver is kept from START TRANSACTION to its end, as it is the transaction. */
    public void run(String sql) {
        inThread(() -> {
            execute(sql);
            finish();
            return null;
        });
    }

    /** Each row as the JSON texts of its columns between tabs; the names are in `columns()` afterwards. */
    public List<String> rows(String sql) {
        return inThread(() -> {
            execute(sql);
            try {
                names = new ArrayList<>();
                for (FieldSchema field : driver.getSchema().getFieldSchemas()) {
                    names.add(field.getName());
                }
                List<String> all = new ArrayList<>();
                List<String> part = new ArrayList<>();
                while (driver.getResults(part)) {
                    all.addAll(part);
                    part.clear();
                }
                snapshot = listsOf(driver.getFetchTask());
                return all;
            } finally {
                finish();
            }
        });
    }

    public List<String> columns() {
        return names;
    }

    /** Transactions and write ids of all tables that the last `rows` read with; an element is null where unknown. */
    public List<String> snapshot() {
        return snapshot;
    }

    /** The same two lists as a query that starts now would get for these tables. */
    public List<String> currentLists(List<String> tables) {
        return inThread(() -> {
            String txns = SessionState.get().initTxnMgr(conf).getValidTxns().toString();
            return Arrays.asList(txns, Services.writeIdLists(conf, tables, txns));
        });
    }

    @Override
    public void close() {
        inThread(() -> {
            if (driver != null) {
                driver.close();
                driver.destroy();
                driver = null;
            }
            SessionState.get().close();
            return null;
        });
        thread.shutdown();
    }

    /** The lists lie in the job of the fetch, which Hive gives away to nobody. */
    private static List<String> listsOf(FetchTask task) throws ReflectiveOperationException {
        if (task == null) {
            return Arrays.asList(null, null);
        }
        Field fetch = FetchTask.class.getDeclaredField("fetch");
        fetch.setAccessible(true);
        Object operator = fetch.get(task);
        if (operator == null) {
            return Arrays.asList(null, null);
        }
        Field job = FetchOperator.class.getDeclaredField("job");
        job.setAccessible(true);
        Configuration found = (Configuration) job.get(operator);
        return Arrays.asList(found.get("hive.txn.valid.txns"), found.get("hive.txn.tables.valid.writeids"));
    }

    private void execute(String sql) throws Exception {
        if (driver == null) {
            driver = new Driver(conf);
        }
        CommandProcessorResponse answer;
        try {
            answer = driver.run(sql);
        } catch (Exception | Error e) {
            finish();
            throw e;
        }
        if (answer.getResponseCode() != 0) {
            finish();
            throw new IllegalStateException(answer.getErrorMessage(), answer.getException());
        }
    }

    private void finish() {
        driver.close();
        if (SessionState.get().getTxnMgr() == null || !SessionState.get().getTxnMgr().isTxnOpen()) {
            driver.destroy();
            driver = null;
        }
    }

    private <T> T inThread(Callable<T> task) {
        try {
            return thread.submit(task).get();
        } catch (ExecutionException e) {
            throw new IllegalStateException(String.valueOf(e.getCause()), e.getCause());
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
