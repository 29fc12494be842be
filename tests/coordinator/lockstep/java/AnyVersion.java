package org.apache.kafka.coordinator.group;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.RequestAndSize;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;

/** Where the classes of Kafka 4.0 to 4.4 have other names or parameters: asked for when the program runs. */
final class AnyVersion {
    private static final String RUNTIME = "org.apache.kafka.coordinator.common.runtime.";
    private static final Map<String, Method> METHODS = new HashMap<>();

    private AnyVersion() { }

    /** A method of the class or of what it inherits; null if there is none with this name that takes the arguments. */
    private static Method method(Object owner, String name, Object... arguments) {
        Class<?> type = owner instanceof Class<?> itself ? itself : owner.getClass();
        StringBuilder key = new StringBuilder(type.getName()).append('.').append(name);
        for (Object argument : arguments) key.append('/').append(argument == null ? "" : argument.getClass().getName());
        return METHODS.computeIfAbsent(key.toString(), __ -> {
            for (Class<?> at = type; at != null; at = at.getSuperclass())
                for (Method method : at.getDeclaredMethods())
                    if (method.getName().equals(name) && !method.isBridge() && fit(method.getParameterTypes(), arguments)) {
                        method.setAccessible(true);
                        return method;
                    }
            return null;
        });
    }

    private static boolean fit(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) return false;
        for (int i = 0; i < types.length; i++)
            if (arguments[i] != null && !types[i].isPrimitive() && !types[i].isInstance(arguments[i])) return false;
        return true;
    }

    private static Object invoke(Method method, Object owner, Object... arguments) throws Exception {
        try {
            return method.invoke(owner, arguments);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException itself) throw itself;
            if (error.getCause() instanceof Error itself) throw itself;
            throw error;
        }
    }

    static Object call(Object owner, String name, Object... arguments) throws Exception {
        Method method = method(owner, name, arguments);
        if (method == null) throw new NoSuchMethodException(owner.getClass() + "." + name + Arrays.toString(arguments));
        return invoke(method, owner, arguments);
    }

    static void callIfThere(Object owner, String name, Object... arguments) throws Exception {
        Method method = method(owner, name, arguments);
        if (method != null) invoke(method, owner, arguments);
    }

    static Object callOr(Object owner, String name, Object otherwise) throws Exception {
        Method method = method(owner, name);
        return method == null ? otherwise : invoke(method, owner);
    }

    /** A component of a record, which was a field of a class before. */
    static Object get(Object owner, String name) throws Exception {
        Method method = method(owner, name);
        if (method != null) return invoke(method, owner);
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    static void setIfThere(Object owner, String name, Object value) throws Exception {
        for (Field field : owner.getClass().getDeclaredFields())
            if (field.getName().equals(name)) {
                field.setAccessible(true);
                field.set(owner, value);
            }
    }

    /** A new object. Parameters that a version has beyond these arguments are null, or empty. */
    static Object create(Class<?> type, Object... arguments) {
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            Class<?>[] types = constructor.getParameterTypes();
            if (types.length < arguments.length) continue;
            Object[] all = Arrays.copyOf(arguments, types.length);
            for (int i = arguments.length; i < all.length; i++) if (types[i] == Optional.class) all[i] = Optional.empty();
            if (!fit(types, all)) continue;
            constructor.setAccessible(true);
            try {
                return constructor.newInstance(all);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
        throw new IllegalArgumentException(type + " cannot be made of " + Arrays.toString(arguments));
    }

    private static Class<?> ifThere(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException absent) {
            return null;
        }
    }

    /** What StreamsStates says; null if it is not there. */
    static Object ofStreams(String name, Object... arguments) throws Exception {
        Class<?> type = ifThere("org.apache.kafka.coordinator.group.StreamsStates");
        return type == null ? null : call(type, name, arguments);
    }

    static Object logContext() {
        Class<?> type = ifThere("org.apache.kafka.common.utils.LogContext");
        return create(type == null ? ifThere("org.apache.kafka.common.utils.internals.LogContext") : type);
    }

    private static Object bufferSupplier() throws Exception {
        Class<?> type = ifThere("org.apache.kafka.common.utils.BufferSupplier");
        if (type == null) type = ifThere("org.apache.kafka.common.utils.internals.BufferSupplier");
        return type.getField("NO_CACHING").get(null);
    }

    static GroupConfigManager groupConfigManager(Map<String, Object> settings, GroupCoordinatorConfig config) throws Exception {
        Map<String, Object> defaults = new HashMap<>();
        defaults.put("consumer.session.timeout.ms", config.consumerGroupSessionTimeoutMs());
        defaults.put("consumer.heartbeat.interval.ms", config.consumerGroupHeartbeatIntervalMs());
        Method ofShares = method(ShareGroupConfig.class, "fromProps", settings);
        if (ofShares == null) return (GroupConfigManager) create(GroupConfigManager.class, defaults);
        ShareGroupConfig shares = (ShareGroupConfig) invoke(ofShares, null, settings);
        if (GroupConfigManager.class.getDeclaredConstructors()[0].getParameterCount() == 2)
            return (GroupConfigManager) create(GroupConfigManager.class, config, shares);
        Object all = call(config, "extractGroupConfigMap", shares);
        return (GroupConfigManager) create(GroupConfigManager.class, all, config, shares);
    }

    /** Up to 4.1 the coordinator takes the image of the metadata itself. */
    static Object image(MetadataImage topics) throws Exception {
        Class<?> type = ifThere(RUNTIME + "CoordinatorMetadataImage");
        if (type == null) return topics;
        return topics.isEmpty() ? type.getField("EMPTY").get(null)
            : create(ifThere(RUNTIME + "KRaftCoordinatorMetadataImage"), topics);
    }

    static void topicsChanged(GroupCoordinatorShard shard, MetadataDelta delta, MetadataImage topics) throws Exception {
        Class<?> type = ifThere(RUNTIME + "KRaftCoordinatorMetadataDelta");
        Object change = type == null ? delta : create(type, delta);
        if (method(shard, "onMetadataUpdate", change, image(topics)) != null) call(shard, "onMetadataUpdate", change, image(topics));
        else call(shard, "onNewMetadataImage", image(topics), change);
    }

    static Object topicsDeleted(GroupCoordinatorShard shard, List<TopicImage> deleted) throws Exception {
        List<Object> rows = new ArrayList<>();
        Class<?> type = ifThere("org.apache.kafka.coordinator.group.GroupCoordinatorShard$DeletedTopic");
        for (TopicImage topic : deleted) {
            if (type != null) rows.add(create(type, topic.id(), topic.name()));
            else topic.partitions().keySet().forEach(partition -> rows.add(new TopicPartition(topic.name(), partition)));
        }
        return call(shard, type == null ? "onPartitionsDeleted" : "onTopicsDeleted", rows);
    }

    static AbstractRequest parsed(ApiKeys api, short version, ByteBuffer data) throws Exception {
        Object input = data;
        Method parse = method(AbstractRequest.class, "parseRequest", api, version, data);
        if (parse == null) {
            input = new ByteBufferAccessor(data);
            parse = method(AbstractRequest.class, "parseRequest", api, version, input);
        }
        return ((RequestAndSize) invoke(parse, null, api, version, input)).request;
    }

    @SuppressWarnings("unchecked")
    static <T> CompletableFuture<T> served(GroupCoordinatorService service, String name, Object context, Object data) throws Exception {
        return (CompletableFuture<T>) call(service, name, context, data, bufferSupplier());
    }

    /** What KafkaApis answers for one group. Up to 4.2 the service has a method of its own for all offsets of a group. */
    @SuppressWarnings("unchecked")
    static OffsetFetchResponseData.OffsetFetchResponseGroup fetched(
        GroupCoordinatorService service, Object context, OffsetFetchRequestData.OffsetFetchRequestGroup group,
        boolean stable, short version
    ) throws Exception {
        boolean all = group.topics() == null && method(service, "fetchAllOffsets", context, group, stable) != null;
        var answer = (CompletableFuture<OffsetFetchResponseData.OffsetFetchResponseGroup>) call(
            service, all ? "fetchAllOffsets" : "fetchOffsets", context, group, stable);
        return answer.exceptionally(error -> failed(group, Errors.forException(Errors.maybeUnwrapException(error)), version)).join();
    }

    private static OffsetFetchResponseData.OffsetFetchResponseGroup failed(
        OffsetFetchRequestData.OffsetFetchRequestGroup group, Errors error, short version
    ) {
        try {
            Method method = method(OffsetFetchResponse.class, "groupError", group, error, (int) version);
            if (method != null) return (OffsetFetchResponseData.OffsetFetchResponseGroup) invoke(method, null, group, error, (int) version);
            return new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId(group.groupId()).setErrorCode(error.code());
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    static ApiMessage response(List<OffsetFetchResponseData.OffsetFetchResponseGroup> groups, short version) throws Exception {
        Class<?> builder = ifThere("org.apache.kafka.common.requests.OffsetFetchResponse$Builder");
        Object response = builder == null ? create(OffsetFetchResponse.class, groups, version)
            : call(create(builder, groups), "build", version);
        return ((AbstractResponse) response).data();
    }

    /** In 4.0 the log has the topics of a group, of which there is a hash since. */
    static boolean hasPartitionMetadata(ConsumerGroup group) throws Exception {
        Method method = method(group, "hasSubscriptionMetadataRecord");
        if (method != null) return (boolean) invoke(method, group);
        return !((Map<?, ?>) call(group, "subscriptionMetadata")).isEmpty();
    }
}
