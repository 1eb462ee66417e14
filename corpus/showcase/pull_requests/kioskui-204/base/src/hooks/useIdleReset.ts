import { useEffect } from "react";

const ACTIVITY = ["pointerdown", "keydown"] as const;

/** Calls `onIdle` once nobody has touched the kiosk for `ms` milliseconds. */
export function useIdleReset(ms: number, onIdle: () => void) {
  useEffect(() => {
    let timer = window.setTimeout(onIdle, ms);
    const restart = () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(onIdle, ms);
    };
    ACTIVITY.forEach((name) => window.addEventListener(name, restart));
    return () => {
      window.clearTimeout(timer);
      ACTIVITY.forEach((name) => window.removeEventListener(name, restart));
    };
  }, [ms, onIdle]);
}
