/**
 * Loads a part of the console. Without a connection it waits until the service responds, so a page stays as it is. If the service runs another
 * version, the part may no longer exist: a bar offers to load the page again.
 */
import { reachableStore } from './call.ts'
import { newVersionStore, readSession, sessionStore } from './session.ts'

const MAX_ATTEMPTS = 3
const MAX_DELAY_MS = 5_000

export async function load<Part>(part: () => Promise<Part>): Promise<Part> {
  for (let attempt = 0, reached = 0; ; attempt++) {
    try {
      return await part()
    } catch (error) {
      if (await isReachable()) reached++
      if (reached >= MAX_ATTEMPTS) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(250 * 2 ** attempt, MAX_DELAY_MS)))
  }
}

async function isReachable(): Promise<boolean> {
  try {
    const session = await readSession()
    const { version = session?.version } = sessionStore.get() ?? {}
    if (session && session.version !== version) newVersionStore.set(session.version)
    reachableStore.set(true)
    return true
  } catch {
    reachableStore.set(false)
    return false
  }
}
