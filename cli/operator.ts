import { userInfo } from "node:os";

/** Returns who runs the command: the given name, or the operating system's user. */
export const operatorOf = (given: string | undefined): string => {
  if (given !== undefined) {
    return given;
  }
  try {
    return userInfo().username;
  } catch {
    // In a container, the user may have no name.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
};
