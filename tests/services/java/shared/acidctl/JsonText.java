package acidctl;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;

/** JSON text of plain values: the shortest number that reads back, strings with only the escapes JSON demands. */
final class JsonText {
    private JsonText() {}

    static String quote(String text) {
        StringBuilder out = new StringBuilder(text.length() + 2).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '"': out.append("\\\""); break;
                case '\\': out.append("\\\\"); break;
                case '\n': out.append("\\n"); break;
                case '\r': out.append("\\r"); break;
                case '\t': out.append("\\t"); break;
                default:
                    if (c < 0x20 || c == 0x7f || c == 0x85 || c == 0x2028 || c == 0x2029) {
                        out.append(String.format("\\u%04x", (int) c));
                    } else {
                        out.append(c);
                    }
            }
        }
        return out.append('"').toString();
    }

    /** Double.toString is not the shortest form before Java 19, so the digits are searched for. */
    static String number(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return quote(Double.toString(value));
        }
        if (value == 0) {
            return 1 / value < 0 ? "-0.0" : "0.0";
        }
        BigDecimal exact = new BigDecimal(value);
        for (int digits = 1; digits <= 17; digits++) {
            BigDecimal shorter = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
            if (shorter.doubleValue() == value) {
                return decimalText(shorter);
            }
        }
        throw new IllegalStateException("17 digits always read back: " + value);
    }

    static String number(float value) {
        if (Float.isNaN(value) || Float.isInfinite(value)) {
            return quote(Float.toString(value));
        }
        if (value == 0) {
            return 1 / value < 0 ? "-0.0" : "0.0";
        }
        BigDecimal exact = new BigDecimal((double) value);
        for (int digits = 1; digits <= 9; digits++) {
            BigDecimal shorter = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
            if (shorter.floatValue() == value) {
                return decimalText(shorter);
            }
        }
        throw new IllegalStateException("9 digits always read back: " + value);
    }

    private static String decimalText(BigDecimal value) {
        BigDecimal stripped = value.stripTrailingZeros();
        int exponent = stripped.precision() - stripped.scale() - 1;
        if (exponent >= -5 && exponent < 16) {
            String plain = stripped.toPlainString();
            return plain.indexOf('.') < 0 ? plain + ".0" : plain;
        }
        String digits = stripped.unscaledValue().abs().toString();
        String sign = stripped.signum() < 0 ? "-" : "";
        String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
        return sign + digits.charAt(0) + fraction + "e" + (exponent < 0 ? "-" : "+") + Math.abs(exponent);
    }

    static String bytes(byte[] value) {
        StringBuilder out = new StringBuilder("[");
        for (int i = 0; i < value.length; i++) {
            out.append(i == 0 ? "" : ",").append(value[i] & 0xff);
        }
        return out.append(']').toString();
    }
}
