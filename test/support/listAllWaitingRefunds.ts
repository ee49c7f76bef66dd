import type { DatabasePool } from "slonik";
import { listWaitingRefunds } from "../../modules/registrations/refunds.sql.ts";
import type { WaitingRefunds } from "../../modules/registrations/refunds.sql.ts";

/** Lists the refunds of a test's database whose workflow has not been started yet. */
export const listAllWaitingRefunds = (db: DatabasePool): Promise<readonly WaitingRefunds[]> =>
  listWaitingRefunds(db, { registrations: 1000, refunds: 1000 });
