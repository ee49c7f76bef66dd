import { userInfo } from "node:os";

/** Returns who runs a command: the name given with `--as`, or else the user of the operating system. */
export const operatorName = (as: string | undefined): string => {
  if (as !== undefined) {
    return as;
  }
  try {
    return userInfo().username;
  } catch {
    // In a container, the user may have no name.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
};
