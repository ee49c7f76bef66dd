import type { Claims } from "../partner.ts";
import type { Located, Records } from "./downloadRecords.ts";

/** Polls within this time share a download. TreeMapper itself answers with records that are a few minutes old. */
const SHARED_MS = 5 * 60 * 1000;

/** What the polls of some minutes share. */
export type Download = {
  readonly records: Records;
  /** The records with trees that no order had when they were downloaded, oldest first. */
  readonly free: readonly Located[];
  /** The trees of each record that no order has, as far as this process knows. */
  readonly left: Map<string, number>;
};

/** Counts the trees of each record that no order has. */
export const countLeft = async (
  records: readonly Located[],
  { listCredited }: Claims,
): Promise<readonly [id: string, trees: number][]> => {
  const listed = await listCredited(records.map(({ planting }) => planting.id));
  const credited = new Map(listed.map(({ reference, trees }) => [reference, trees]));
  return records.map(({ planting: { id }, trees }) => [id, trees - (credited.get(id) ?? 0)]);
};

/** Returns a function that downloads the records once for all polls of some minutes, in whatever order they come. */
export const shareDownloads = (
  downloadNow: (signal: AbortSignal) => Promise<Records>,
): ((now: Date, signal: AbortSignal, claims: Claims) => Promise<Download>) => {
  let latest: { readonly startedAt: Date; readonly download: Promise<Download> } | null = null;
  const download = async (signal: AbortSignal, claims: Claims): Promise<Download> => {
    const records = await downloadNow(signal);
    const all = [...records.values()];
    const left = new Map(await countLeft(all, claims));
    const free = all.filter(({ planting: { id } }) => (left.get(id) ?? 0) > 0);
    return { records, free, left };
  };
  return async (now, signal, claims) => {
    if (latest === null || Math.abs(now.getTime() - latest.startedAt.getTime()) >= SHARED_MS) {
      // Activities are cancelled together, when their worker shuts down. So one signal serves all that share a download.
      latest = { startedAt: now, download: download(signal, claims) };
    }
    const shared = latest;
    try {
      return await shared.download;
    } catch (error) {
      // The next poll tries again.
      if (latest === shared) {
        latest = null;
      }
      throw error;
    }
  };
};
