import { ApplicationFailure } from "@temporalio/common";
import test from "ava";
import { createShardActivities } from "../../activities/createShardActivities.ts";
import { usageShard } from "../../workflows/usageShard.ts";
import { eventually } from "../support/programs.ts";
import { startWorker } from "./startWorker.ts";

test("a shard's activity sends heartbeats, and another worker continues up to 13 seconds after the last", async (t) => {
  const run = Promise.withResolvers<void>();
  const client = await startWorker(
    t,
    createShardActivities({
      runs: { run: () => run.promise, end: () => Promise.resolve() },
      stopping: new AbortController().signal,
    }),
  );
  const handle = await client.workflow.start(usageShard, {
    workflowId: "usage-shard",
    taskQueue: "test",
    args: [0],
  });
  t.teardown(() => run.reject(ApplicationFailure.nonRetryable("the test is over")));

  const findActivity = async () => (await handle.describe()).raw.pendingActivities?.[0];
  await eventually(async () => {
    const activity = await findActivity();
    return (
      Number(activity?.lastHeartbeatTime?.seconds) > Number(activity?.lastStartedTime?.seconds)
    );
  });
  t.is((await findActivity())?.attempt, 1);
  const { events } = await handle.fetchHistory();
  const scheduled = events?.find((event) => event.activityTaskScheduledEventAttributes);
  const { heartbeatTimeout, retryPolicy } = scheduled?.activityTaskScheduledEventAttributes ?? {};
  t.is(Number(heartbeatTimeout?.seconds), 10);
  t.is(Number(retryPolicy?.initialInterval?.seconds), 3);
});
