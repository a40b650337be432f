package acidctl;

import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;

/** Notes, before a query runs, the write ids that it may see: they are gone from its configuration when it has ended. */
public final class WriteIdsNoted implements ExecuteWithHookContext {
    static final ThreadLocal<String> LAST = new ThreadLocal<>();

    @Override
    public void run(HookContext context) {
        LAST.set(context.getConf().get("hive.txn.tables.valid.writeids"));
    }
}
