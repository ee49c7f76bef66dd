import { deleteOldData } from "../modules/support/deleteOldData.ts";
import type { Context } from "../runtime/context.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

export const createRetentionActivities = (context: Context) => ({
  deleteOldData: () => withHeartbeat((signal) => deleteOldData(context, signal)),
});

export type RetentionActivities = ReturnType<typeof createRetentionActivities>;
