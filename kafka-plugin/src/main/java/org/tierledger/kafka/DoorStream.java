package org.tierledger.kafka;

import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import io.grpc.okhttp.OkHttpChannelBuilder;
import io.grpc.protobuf.lite.ProtoLiteUtils;
import java.io.File;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.NoRouteToHostException;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLException;
import org.tierledger.door.v1.ClientFrame;
import org.tierledger.door.v1.ClientGreeting;
import org.tierledger.door.v1.HostFrame;
import org.tierledger.door.v1.HostGreeting;

/** One stream to a host, with its own connection. Runs on the loop. */
abstract class DoorStream extends ClientCall.Listener<HostFrame> {
    private static final String SERVICE = "tierledger.door.v1.Door/";
    private static final int VERSION = 1;
    private static final long OPEN_MS = 3_000;
    private static final int WINDOW_BYTES = 1024 * 1024;

    final String door;
    final Loop loop;
    /** Completes when the host's greeting has come; fails when the stream ends before. */
    final CompletableFuture<DoorStream> opened = new CompletableFuture<>();

    /** Completes when the stream has ended, for whatever reason. */
    final CompletableFuture<CallFailed> over = new CompletableFuture<>();

    private final Settings settings;
    private final String method;
    private ManagedChannel channel;
    private ClientCall<ClientFrame, HostFrame> call;
    /** Null before the host's greeting has come. */
    HostGreeting greeting;
    /** Why the stream has ended; null while it has not. */
    CallFailed ended;
    /** Number of frames received. */
    long heard;
    private boolean isFlushing;

    DoorStream(String door, String method, Loop loop, Settings settings) {
        this.door = door;
        this.method = method;
        this.loop = loop;
        this.settings = settings;
    }

    /** Wait until the channel of an ended stream has no thread or socket left. */
    final void awaitClosed(long ms) throws InterruptedException {
        if (channel != null) {
            channel.awaitTermination(ms, TimeUnit.MILLISECONDS);
        }
    }

    final DoorStream open() {
        Metadata headers = new Metadata();
        try {
            channel = channel();
            if (settings.tokenFile != null) {
                headers.put(
                    Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER),
                    "Bearer " + token());
            }
        } catch (IOException | IllegalArgumentException error) {
            end(CallFailed.notReady("a file of the plugin's settings: " + error));
            return this;
        }
        call = channel.newCall(
            MethodDescriptor.<ClientFrame, HostFrame>newBuilder()
                .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
                .setFullMethodName(SERVICE + method)
                .setRequestMarshaller(ProtoLiteUtils.marshaller(ClientFrame.getDefaultInstance()))
                .setResponseMarshaller(ProtoLiteUtils.marshaller(HostFrame.getDefaultInstance()))
                .build(),
            CallOptions.DEFAULT);
        call.start(this, headers);
        call.request(1);
        call.sendMessage(ClientFrame.newBuilder().setGreeting(ClientGreeting.newBuilder()
            .setVersionMin(VERSION)
            .setVersionMax(VERSION)
            .setClusterId(settings.clusterId)
            .setBrokerId(settings.brokerId)
            .setSoftware("tierledger kafka-plugin")).build());
        loop.after(OPEN_MS, () -> {
            if (greeting == null) {
                end(CallFailed.notReady("no greeting within " + OPEN_MS + " ms"));
            }
        });
        return this;
    }

    /**
     * A channel that calls its listeners on the loop, so that one thread has the stream's state.
     * It repeats nothing: a stream that broke may have delivered its calls, and only who made a
     * call can tell whether it may be made again. It connects directly, whatever the environment
     * says of proxies. The host, not this limit, bounds how long a message is.
     */
    private ManagedChannel channel() throws IOException {
        return OkHttpChannelBuilder
            .forTarget("dns:///" + door, credentials())
            .executor(loop.timer())
            .offloadExecutor(loop.transports())
            .transportExecutor(loop.transports())
            .scheduledExecutorService(loop.timer())
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(5, TimeUnit.SECONDS)
            .flowControlWindow(WINDOW_BYTES)
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .proxyDetector(address -> null)
            .disableRetry()
            .build();
    }

    private ChannelCredentials credentials() throws IOException {
        if (!settings.isTls) {
            return InsecureChannelCredentials.create();
        }
        TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
        if (settings.caFile != null) {
            tls.trustManager(new File(settings.caFile));
        }
        if (settings.certificateFile != null) {
            tls.keyManager(new File(settings.certificateFile), new File(settings.keyFile));
        }
        return tls.build();
    }

    private String token() throws IOException {
        String host = door.substring(0, door.lastIndexOf(':')).replaceAll("[\\[\\]]", "");
        if (!settings.isTls && !settings.isTokenSentWithoutTls
            && !InetAddress.getByName(host).isLoopbackAddress()) {
            throw new IOException("the token is not sent to another machine without TLS");
        }
        return Files.readString(Path.of(settings.tokenFile)).trim();
    }

    final boolean isOpen() {
        return greeting != null && ended == null;
    }

    /** Send what waits after the current task of the loop, so that it shares a frame. */
    final void flush() {
        if (!isFlushing && isOpen()) {
            isFlushing = true;
            loop.run(this::send);
        }
    }

    private void send() {
        isFlushing = false;
        while (isOpen() && call.isReady()) {
            ClientFrame frame = nextFrame();
            if (frame == null) {
                return;
            }
            call.sendMessage(frame);
        }
    }

    /** The next frame to send, with all that fits into it; null if nothing waits. */
    abstract ClientFrame nextFrame();

    abstract void given(HostFrame frame);

    /** The stream has ended. */
    abstract void onEnd(CallFailed why);

    @Override
    public final void onReady() {
        flush();
    }

    @Override
    public final void onMessage(HostFrame frame) {
        if (ended != null) {
            return;
        }
        heard++;
        if (greeting == null && frame.hasGreeting()) {
            greeting = frame.getGreeting();
            opened.complete(this);
            flush();
        } else if (greeting == null && !frame.hasFarewell()) {
            end(CallFailed.notReady("what answers there does not greet as a host does"));
            return;
        }
        try {
            given(frame);
        } catch (RuntimeException error) {
            end(CallFailed.notReady("the host sent a frame that cannot be read: " + error));
        }
        if (frame.hasFarewell()) {
            end(CallFailed.of(frame.getFarewell()));
        }
        if (ended == null) {
            call.request(1);
        }
    }

    @Override
    public final void onClose(Status status, Metadata trailers) {
        end(CallFailed.notReady(reason(status) + "; expected a host of tierledger that speaks "
            + (settings.isTls ? "TLS" : "without TLS")));
    }

    /** Why the stream has ended, in our own words: gRPC's are for its developers. */
    static String reason(Status status) {
        Throwable cause = status.getCause();
        while (cause != null && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof ConnectException) {
            return "nothing listens there";
        }
        if (cause instanceof UnknownHostException) {
            return "the host's name is not known";
        }
        if (cause instanceof NoRouteToHostException) {
            return "there is no route to the host";
        }
        if (cause instanceof GeneralSecurityException || cause instanceof SSLException) {
            return "the TLS handshake with the host failed: " + cause;
        }
        switch (status.getCode()) {
            case OK: return "the host ended the conversation";
            case UNAVAILABLE: return "the host is not reached, or has closed the connection"
                + (cause == null ? "" : ": " + cause.getMessage());
            case UNKNOWN: return "the host failed in the middle of the conversation";
            case INTERNAL: return "the conversation with the host broke off";
            case UNIMPLEMENTED: return "the server there is no host";
            case CANCELLED: return "the conversation with the host was cancelled";
            case RESOURCE_EXHAUSTED: return "the host or this broker has no room for the message";
            case DEADLINE_EXCEEDED: return "the host did not answer in time";
            default: return "the conversation ended with gRPC's status " + status.getCode();
        }
    }

    /** End the stream; a second call does nothing. */
    final void end(CallFailed why) {
        if (ended != null) {
            return;
        }
        ended = new CallFailed(why.kind, why.fate, door + ": " + why.getMessage());
        if (channel != null) {
            channel.shutdownNow();
        }
        onEnd(ended);
        opened.completeExceptionally(ended);
        over.complete(ended);
    }
}
