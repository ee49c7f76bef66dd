import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { testWithDatabase } from "../support/database.ts";
import { openNamespace, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

const endsInOrder = test.macro({
  exec: async (t, afterMs: number) => {
    const { namespace } = await openNamespace(t);
    const { process: worker } = await startProgram(t, "worker/main.ts", {
      DATABASE_URL: t.context.databaseUrl,
      TEMPORAL_NAMESPACE: namespace,
    });
    await delay(afterMs);

    worker.kill("SIGTERM");

    const [code, signal] = await once(worker, "exit");
    t.is(code, 0);
    t.is(signal, null);
  },
  title: (_, afterMs) =>
    `a worker that is told to stop ${String(afterMs)} ms after it was ready ends in order`,
});

// While it bundles the workflows, while it connects, and while it polls.
for (const afterMs of [0, 500, 1500, 4000]) {
  test.serial(endsInOrder, afterMs);
}
