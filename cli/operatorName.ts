import { userInfo } from "node:os";

/** Returns who runs a command: the name given with `--as`, or else the user of the operating system. */
export const operatorName = (as: string | undefined): string => as ?? userInfo().username;
