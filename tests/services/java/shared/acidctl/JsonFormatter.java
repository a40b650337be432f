package acidctl;

import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.serde2.FetchFormatter;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.UnionObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.HiveCharObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.DecimalTypeInfo;

/**
 * Turns each row of a fetch task into the JSON texts of its columns, separated by tabs (JSON text holds none).
 * Also notes the transactions that this very query may see, which its configuration carries in Hive 4.
 */
public final class JsonFormatter implements FetchFormatter<String> {
    static final ThreadLocal<String> VALID_TXNS = new ThreadLocal<>();

    @Override
    public void initialize(Configuration conf, Properties properties) {
        VALID_TXNS.set(conf.get("hive.txn.valid.txns"));
    }

    @Override
    public String convert(Object row, ObjectInspector inspector) {
        StructObjectInspector struct = (StructObjectInspector) inspector;
        StringBuilder out = new StringBuilder();
        for (StructField field : struct.getAllStructFieldRefs()) {
            if (out.length() > 0) {
                out.append('\t');
            }
            json(out, struct.getStructFieldData(row, field), field.getFieldObjectInspector());
        }
        return out.toString();
    }

    @Override
    public void close() {}

    static void json(StringBuilder out, Object value, ObjectInspector inspector) {
        if (value == null) {
            out.append("null");
            return;
        }
        switch (inspector.getCategory()) {
            case PRIMITIVE: primitive(out, value, (PrimitiveObjectInspector) inspector); break;
            case LIST: list(out, value, (ListObjectInspector) inspector); break;
            case MAP: map(out, value, (MapObjectInspector) inspector); break;
            case STRUCT: struct(out, value, (StructObjectInspector) inspector); break;
            case UNION: union(out, value, (UnionObjectInspector) inspector); break;
            default: throw new IllegalArgumentException(inspector.getTypeName());
        }
    }

    private static void list(StringBuilder out, Object value, ListObjectInspector inspector) {
        List<?> elements = inspector.getList(value);
        if (elements == null) {
            out.append("null");
            return;
        }
        out.append('[');
        String separator = "";
        for (Object element : elements) {
            out.append(separator);
            json(out, element, inspector.getListElementObjectInspector());
            separator = ",";
        }
        out.append(']');
    }

    private static void map(StringBuilder out, Object value, MapObjectInspector inspector) {
        Map<?, ?> entries = inspector.getMap(value);
        if (entries == null) {
            out.append("null");
            return;
        }
        out.append('[');
        String separator = "";
        for (Map.Entry<?, ?> entry : entries.entrySet()) {
            out.append(separator).append("{\"_key\":");
            json(out, entry.getKey(), inspector.getMapKeyObjectInspector());
            out.append(",\"_value\":");
            json(out, entry.getValue(), inspector.getMapValueObjectInspector());
            out.append('}');
            separator = ",";
        }
        out.append(']');
    }

    private static void struct(StringBuilder out, Object value, StructObjectInspector inspector) {
        boolean rowId = inspector.getTypeName().equals("struct<transactionid:bigint,bucketid:int,rowid:bigint>");
        out.append('{');
        String separator = "";
        for (StructField field : inspector.getAllStructFieldRefs()) {
            // Hive 2 says transactionid for what later versions call the write id.
            String name = rowId && field.getFieldName().equals("transactionid") ? "writeid" : field.getFieldName();
            out.append(separator).append(JsonText.quote(name)).append(':');
            json(out, inspector.getStructFieldData(value, field), field.getFieldObjectInspector());
            separator = ",";
        }
        out.append('}');
    }

    private static void union(StringBuilder out, Object value, UnionObjectInspector inspector) {
        byte tag = inspector.getTag(value);
        out.append("{\"tag\":").append(tag).append(",\"value\":");
        json(out, inspector.getField(value), inspector.getObjectInspectors().get(tag));
        out.append('}');
    }

    private static void primitive(StringBuilder out, Object value, PrimitiveObjectInspector inspector) {
        Object plain = inspector.getPrimitiveJavaObject(value);
        if (plain == null) {
            out.append("null");
            return;
        }
        switch (inspector.getPrimitiveCategory()) {
            case VOID: out.append("null"); break;
            case BOOLEAN: case BYTE: case SHORT: case INT: case LONG: out.append(plain); break;
            case FLOAT: out.append(JsonText.number((Float) plain)); break;
            case DOUBLE: out.append(JsonText.number((Double) plain)); break;
            case BINARY: out.append(JsonText.bytes((byte[]) plain)); break;
            case DECIMAL:
                int scale = ((DecimalTypeInfo) inspector.getTypeInfo()).scale();
                out.append(JsonText.quote(((HiveDecimal) plain).bigDecimalValue().setScale(scale).toPlainString()));
                break;
            case CHAR:
                out.append(JsonText.quote(
                        ((HiveCharObjectInspector) inspector).getPrimitiveJavaObject(value).getStrippedValue()));
                break;
            default: out.append(JsonText.quote(other(plain)));
        }
    }

    private static String other(Object value) {
        if (value instanceof java.sql.Timestamp) {
            String text = value.toString();
            return text.endsWith(".0") ? text.substring(0, text.length() - 2) : text;
        }
        // Hive 2.3 has no such class, so it is known by name.
        return value.getClass().getSimpleName().equals("TimestampTZ") ? instant(value) : value.toString();
    }

    private static String instant(Object value) {
        ZonedDateTime local;
        try {
            local = (ZonedDateTime) value.getClass().getMethod("getZonedDateTime").invoke(value);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        ZonedDateTime utc = local.withZoneSameInstant(ZoneOffset.UTC);
        String text = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss").format(utc);
        if (utc.getNano() != 0) {
            text += "." + String.format("%09d", utc.getNano()).replaceAll("0+$", "");
        }
        return text + " UTC";
    }
}
