import { createRecordPolls } from "../creditRecords.ts";
import type { PlantingPartner } from "../partner.ts";
import { downloadRecords, readProject } from "./downloadRecords.ts";
import type { TreeMapperAccess } from "./downloadRecords.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";

/**
 * A planting project that keeps its records in TreeMapper. The API is read-only and has no orders, so orders are credited with
 * records. TreeMapper records no verification; it has to be reported.
 */
export const createTreeMapperPartner = ({
  name,
  access,
  onUnusable,
}: {
  readonly name: string;
  readonly access: TreeMapperAccess;
  /** Called after each download with records that no order can use. */
  readonly onUnusable: (unusable: LeftOut) => void;
}): PlantingPartner => ({
  kind: "treemapper",
  name,
  timeline: "allocations",
  isVerificationPolled: false,
  placeOrder: async ({ publicId }, signal) => {
    const { uid } = await readProject(access, signal);
    return `${uid}/${publicId}`;
  },
  fetchUpdates: createRecordPolls((signal) => downloadRecords(access, signal, onUnusable)),
});
