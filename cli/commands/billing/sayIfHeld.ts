import type { CommonQueryMethods } from "slonik";
import { readDeployment } from "../../../db/billing/deployment.ts";
import { describeHold, findHold, HOLD_ADVICE } from "../../../domain/billing/deployment.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";

/**
 * Says why nothing is sent while usage is held.
 * @returns whether it is held
 */
export const sayIfHeld = async (io: Io, db: CommonQueryMethods): Promise<boolean> => {
  const hold = findHold(await readDeployment(db));
  if (hold) {
    say(io, `Nothing is sent: ${describeHold(hold)}. ${HOLD_ADVICE}`);
  }
  return hold !== null;
};
