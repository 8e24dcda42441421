/** Reads a state repeatedly until it is final, or the signal aborts. Returns the last state. */
import { setTimeout as sleep } from 'node:timers/promises'

export async function pollUntil<State>(
  read: () => Promise<State>,
  isFinal: (state: State) => boolean,
  { signal, pollMs }: { readonly signal: AbortSignal; readonly pollMs: number },
): Promise<State> {
  for (;;) {
    const state = await read()
    if (isFinal(state) || signal.aborted) return state
    await sleep(pollMs, undefined, { signal }).catch((error) => {
      if (!signal.aborted) throw error
    })
  }
}
