import java.lang.reflect.Method;

/** For each class of the arguments that there is: its simple name, and the names of the methods that it declares. */
public class Methods {
    public static void main(String[] names) {
        for (String name : names) {
            try {
                Class<?> found = Class.forName(name, false, Methods.class.getClassLoader());
                StringBuilder line = new StringBuilder(found.getSimpleName());
                for (Method method : found.getDeclaredMethods())
                    line.append(' ').append(method.getName());
                System.out.println(line);
            } catch (ClassNotFoundException error) {
                // it is in another package
            }
        }
    }
}
