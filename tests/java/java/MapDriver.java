import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;

/**
 * java.util.HashMap behind a line protocol: how many entries there is room for, and what is done to the map, a word for
 * each key: + (put), ? (computeIfAbsent) or - (remove), the number of the key, and its hash code. The answer has the
 * numbers of the keys in the order of the map.
 */
public final class MapDriver {
    private record Key(int number, int hash) {
        @Override
        public int hashCode() {
            return hash;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] words = line.split(" ");
            Map<Key, Boolean> map = new HashMap<>(Integer.parseInt(words[0]));
            for (int i = 1; i < words.length; i++) {
                String[] numbers = words[i].substring(1).split(":");
                Key key = new Key(Integer.parseInt(numbers[0]), Integer.parseInt(numbers[1]));
                switch (words[i].charAt(0)) {
                    case '+' -> map.put(key, true);
                    case '?' -> map.computeIfAbsent(key, unused -> true);
                    case '-' -> map.remove(key);
                    default -> throw new IllegalArgumentException(words[i]);
                }
            }
            StringJoiner answer = new StringJoiner(" ");
            for (Key key : map.keySet()) answer.add(Integer.toString(key.number()));
            System.out.println(answer);
        }
    }
}
