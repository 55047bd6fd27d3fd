// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/**
 * What the tests of the java driver run. The first argument says what it does.
 * Probe.class is committed, since machines that run Java need not have a compiler:
 *
 *   javac --release 11 Probe.java
 */
public final class Probe implements Runnable, SignalHandler {
    private static volatile Process child; // of shell

    private Probe() {}

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "show":
                show(args);
                break;
            case "exit":
                System.exit(Integer.parseInt(args[1]));
                break;
            case "serve":
                serve();
                break;
            case "hog":
                hog();
                break;
            case "sh":
                shell(args[1]);
                break;
            default:
                throw new IllegalArgumentException(args[0]);
        }
    }

    private static void show(String[] args) {
        System.out.println("args=" + Arrays.asList(args));
        System.out.println("probe=" + System.getProperty("probe"));
        System.out.println("cwd=" + System.getProperty("user.dir"));
        System.out.println("user=" + System.getProperty("user.name"));
        System.out.println("classpath=" + System.getProperty("java.class.path"));
        System.out.println("maxmb=" + (Runtime.getRuntime().maxMemory() >> 20));
        System.out.println("processors=" + Runtime.getRuntime().availableProcessors());
    }

    /** Runs until there is a file /local/go, and says so when it is told to end before. */
    private static void serve() throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(new Probe()));
        System.out.println("up");
        while (!new File("/local/go").exists()) {
            Thread.sleep(10);
        }
        Runtime.getRuntime().halt(9);
    }

    @Override
    public void run() {
        System.out.println("bye");
    }

    private static void hog() {
        List<byte[]> all = new ArrayList<>();
        for (;;) {
            byte[] mb = new byte[1 << 20];
            Arrays.fill(mb, (byte) 1);
            all.add(mb);
        }
    }

    /** Is, to whoever looks on, the shell script: its signals are the script's, and so is its end. */
    private static void shell(String script) throws Exception {
        Probe forward = new Probe();
        for (String name : new String[] {"HUP", "INT", "TERM"}) {
            Signal.handle(new Signal(name), forward);
        }
        child = new ProcessBuilder("/bin/sh", "-c", script).inheritIO().start();
        int code = child.waitFor();
        int signal = code - 128;
        if (signal == 1 || signal == 2 || signal == 15) {
            Signal.handle(new Signal(signal == 1 ? "HUP" : signal == 2 ? "INT" : "TERM"), SignalHandler.SIG_DFL);
        }
        if (signal > 0) {
            send(signal, ProcessHandle.current().pid());
            Thread.sleep(10_000); // it comes
        }
        Runtime.getRuntime().halt(code);
    }

    @Override
    public void handle(Signal s) {
        try {
            while (child == null) { // it runs before start returns
                Thread.sleep(1);
            }
            send(s.getNumber(), child.pid());
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    private static void send(int signal, long pid) throws Exception {
        new ProcessBuilder("/bin/sh", "-c", "kill -" + signal + " " + pid).inheritIO().start().waitFor();
    }
}
