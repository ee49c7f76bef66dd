import { claimChanges, treesIn } from "../creditOrder.rules.ts";
import type { RecordedTrees } from "../creditOrder.rules.ts";
import type { Claims, InTurn } from "../partner.ts";
import type { Located } from "./downloadRecords.ts";
import { countLeft } from "./shareDownloads.ts";
import type { Download } from "./shareDownloads.ts";

/**
 * Chooses the records that an order may need: those of which it has trees, and the oldest ones with trees that no order
 * has, as far as this process knows.
 * @param since records that began earlier are left out
 * @param reserve how many times the missing trees to choose
 * @returns the records, oldest first, and whether there may be more
 */
const chooseRecords = (
  { records, free, left }: Download,
  order: { readonly treeCount: number; readonly own: readonly RecordedTrees[] },
  { since, now, reserve }: { readonly since: Date; readonly now: Date; readonly reserve: number },
): { readonly chosen: readonly Located[]; readonly hasMore: boolean } => {
  // Numbers, because comparing the dates of thousands of records takes many times as long.
  const [sinceMs, nowMs] = [since.getTime(), now.getTime()];
  const isEarlier = ({ planting }: Located): boolean =>
    planting.interventionStartDate.getTime() < sinceMs;
  const isInTime = (record: Located): boolean =>
    !isEarlier(record) && record.planting.interventionEndDate.getTime() <= nowMs;
  const chosen = new Set<Located>();
  let missing = order.treeCount;
  for (const { reference, trees } of order.own) {
    const record = records.get(reference);
    if (record && isInTime(record)) {
      chosen.add(record);
      missing -= Math.min(trees, record.trees);
    }
  }
  let wanted = reserve * missing;
  let next = free.findLastIndex(isEarlier) + 1;
  for (; next < free.length && wanted > 0; next += 1) {
    const record = free[next];
    const trees = left.get(record?.planting.id ?? "") ?? 0;
    if (record && trees > 0 && isInTime(record) && !chosen.has(record)) {
      chosen.add(record);
      wanted -= trees;
    }
  }
  return {
    chosen: [...chosen].toSorted((one, other) => one.position - other.position),
    hasMore: next < free.length,
  };
};

/**
 * Credits an order with trees of downloaded records, which are then no longer left.
 * @param since records that began earlier are left out
 * @returns all trees that the order is credited with
 */
export const creditFromDownload = async (
  download: Download,
  order: { readonly treeCount: number; readonly since: Date; readonly now: Date },
  claims: Claims,
  inTurn: InTurn,
): Promise<readonly RecordedTrees[]> => {
  const { treeCount, since, now } = order;
  const { left } = download;
  for (let reserve = 2; ; reserve *= 2) {
    let choice: ReturnType<typeof chooseRecords> = { chosen: [], hasMore: false };
    const { before, after } = await claims.claimTrees((own) => {
      choice = chooseRecords(download, { treeCount, own }, { since, now, reserve });
      return choice.chosen.map(({ planting, trees }) => ({ reference: planting.id, trees }));
    }, inTurn);
    for (const { reference, trees } of claimChanges(before, after).differences) {
      const known = left.get(reference);
      if (known !== undefined) {
        left.set(reference, known - trees);
      }
    }
    if (!choice.hasMore || treesIn(after) >= treeCount) {
      return after;
    }
    // Other processes have taken trees of these records since the download.
    for (const [id, trees] of await countLeft(choice.chosen, claims)) {
      left.set(id, trees);
    }
  }
};
