package acidctl;

import java.lang.reflect.Field;
import java.util.ArrayList;
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
    private String validTxns;

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
                validTxns = txnsOf(driver.getFetchTask());
                return all;
            } finally {
                finish();
            }
        });
    }

    public List<String> columns() {
        return names;
    }

    /** The ValidTxnList that the last `rows` read with; null if it read no table. */
    public String validTxns() {
        return validTxns;
    }

    /** The ValidTxnWriteIdList that goes with a ValidTxnList; Hive 2 knows none. */
    public String validWriteIds(List<String> tables, String txns) {
        return inThread(() -> Services.writeIdLists(conf, tables, txns));
    }

    /** The ValidTxnList of a query that starts now. */
    public String currentTxns() {
        return inThread(() -> SessionState.get().initTxnMgr(conf).getValidTxns().toString());
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

    /** The list lies in the job of the fetch, which Hive gives away to nobody. */
    private static String txnsOf(FetchTask task) throws ReflectiveOperationException {
        Object operator = task == null ? null : field(FetchTask.class, "fetch", task);
        if (operator == null) {
            return null;
        }
        return ((Configuration) field(FetchOperator.class, "job", operator)).get("hive.txn.valid.txns");
    }

    private static Object field(Class<?> type, String name, Object owner) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
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

    /** Closing a driver ends the transaction it belongs to. */
    private void finish() {
        if (SessionState.get().getTxnMgr() == null || !SessionState.get().getTxnMgr().isTxnOpen()) {
            driver.close();
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
