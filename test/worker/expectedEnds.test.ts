import { Client, Connection } from "@temporalio/client";
import { NativeConnection, Worker } from "@temporalio/worker";
import test from "ava";
import { pino } from "pino";
import { z } from "zod";
import { asNonRetryable } from "../../activities/createPlantingActivities.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { installTemporalRuntime } from "../../worker/installTemporalRuntime.ts";
import { plantingOrder } from "../../workflows/plantingOrder.ts";
import { registerNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

const line = z.looseObject({ level: z.int(), msg: z.string() });

test("a workflow that ends because its order is gone is logged with the reason, without a stack", async (t) => {
  const written: string[] = [];
  await installTemporalRuntime(
    pino({ level: "info" }, { write: (text) => void written.push(text) }),
  );
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  const namespace = await registerNamespace(connection);
  const native = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
  const worker = await Worker.create({
    connection: native,
    namespace,
    taskQueue: "test",
    workflowBundle: await bundleWorkflows(),
    activities: {
      pollPlantingOrder: () =>
        asNonRetryable(() =>
          Promise.reject(new DomainError("record_not_found", "failed to find planting order")),
        ),
    },
  });
  await worker.runUntil(
    t.throwsAsync(
      new Client({ connection, namespace }).workflow.execute(plantingOrder, {
        workflowId: "gone",
        taskQueue: "test",
        args: [1],
      }),
    ),
  );
  await connection.close();
  await native.close();

  const lines = written.map((text) => line.parse(JSON.parse(text)));
  for (const [message, reason] of [
    ["Activity failed", /^failed to find planting order$/u],
    ["Workflow failed", /: failed to find planting order$/u],
  ] as const) {
    const found = lines.find(({ msg }) => msg === message);
    t.is(found?.level, 40, message);
    t.regex(String(found?.["reason"]), reason);
    t.false(JSON.stringify(found).includes("    at "), message);
  }
});
