package acidctl;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.Tool;

/** Copies trees in and out, removes and lists them, with names as they are: `hdfs dfs` expands and decodes them. */
final class Trees extends Configured implements Tool {
    private static final int THREADS = 16;

    private final String verb;
    private final PrintStream out;
    private final List<Future<?>> copies = new ArrayList<>();
    private FileSystem fs;
    private ExecutorService pool;

    Trees(Configuration conf, String verb, PrintStream out) {
        super(conf);
        this.verb = verb;
        this.out = out;
    }

    @Override
    public int run(String[] arguments) throws Exception {
        fs = FileSystem.get(getConf());
        pool = Executors.newFixedThreadPool(THREADS);
        try {
            if (verb.equals("put")) {
                Path target = path(arguments[1]);
                if (fs.exists(target)) {
                    throw new IOException(target + " exists");
                }
                fs.mkdirs(target.getParent());
                put(new File(arguments[0]), target);
            } else if (verb.equals("get")) {
                get(fs.getFileStatus(path(arguments[0])), new File(arguments[1]));
            } else if (verb.equals("remove")) {
                fs.delete(path(arguments[0]), true);
            } else {
                list(path(arguments[0]));
            }
            for (Future<?> copy : copies) {
                copy.get();
            }
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        } finally {
            pool.shutdownNow();
        }
        return 0;
    }

    private static Path path(String text) {
        return new Path(null, null, text);
    }

    private void put(File source, Path target) throws IOException {
        if (!source.isDirectory()) {
            copies.add(pool.submit(() -> {
                try (OutputStream data = fs.create(target, false)) {
                    return Files.copy(source.toPath(), data);
                }
            }));
            return;
        }
        fs.mkdirs(target);
        for (File child : source.listFiles()) {
            put(child, new Path(target, path(child.getName())));
        }
    }

    private void get(FileStatus source, File target) throws IOException {
        if (source.isFile()) {
            copies.add(pool.submit(() -> {
                try (InputStream data = fs.open(source.getPath())) {
                    return Files.copy(data, target.toPath());
                }
            }));
            return;
        }
        if (!target.mkdir()) {
            throw new IOException(target + " exists");
        }
        for (FileStatus child : fs.listStatus(source.getPath())) {
            get(child, new File(target, child.getPath().getName()));
        }
    }

    private void list(Path folder) throws IOException {
        for (FileStatus child : fs.listStatus(folder)) {
            out.print(child.getPath().toUri().getPath() + "\0");
            if (child.isDirectory()) {
                list(child.getPath());
            }
        }
    }
}
