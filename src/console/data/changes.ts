/**
 * The stream of changes: an event names a change, and the affected mounted queries are read again.
 *
 *   one tab of a browser holds a Web Lock ─► reads the stream ─► BroadcastChannel ─► all tabs ─► invalidate
 *
 * - A hidden tab gives the lock up after a minute, so a visible tab takes it.
 * - Without a stream, visible data is read again every 15 s (data/client.ts).
 */
import { requestOf } from './call.ts'
import { client } from './client.ts'
import { type Change, isAnnounced, liveStore, reads } from './live.ts'
import { expiredStore, isPermitted, sessionStore } from './session.ts'
import { settings } from './settings.ts'

const NAME = `tenantry-changes ${settings.prefix}`
const HIDDEN_MS = 60_000
const RETRY_MS = 15_000
/** Changes within this time are one invalidation, so that a bulk does not read without pause. */
const GATHERING_MS = 250
const PAUSE_MS = 1_000

type Message =
  | { readonly type: 'hello' | 'gap' }
  | { readonly type: 'state'; readonly isOpen: boolean }
  | { readonly type: 'change'; readonly change: Change }

/** Follows the changes until the returned function is called. */
export function followChanges(): () => void {
  if (!isPermitted('activity.stream')) return () => undefined
  const stopped = new AbortController()
  const channel = new BroadcastChannel(NAME)
  let isReader = false
  const send = (message: Message) => {
    channel.postMessage(message)
    receive(message)
  }
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if (data.type === 'hello' && isReader) channel.postMessage({ type: 'state', isOpen: liveStore.get() })
    else receive(data)
  }
  channel.postMessage({ type: 'hello' } satisfies Message)

  void (async () => {
    while (!stopped.signal.aborted) {
      await visible(stopped.signal)
      await withLock(stopped.signal, async () => {
        isReader = true
        await readStream(AbortSignal.any([stopped.signal, hiddenFor(HIDDEN_MS, stopped.signal)]), send)
        isReader = false
      })
    }
  })().catch((error) => {
    if (!stopped.signal.aborted) throw error
  })
  return () => {
    stopped.abort()
    channel.close()
  }
}

function receive(message: Message): void {
  if (message.type === 'state') {
    if (liveStore.get() === message.isOpen) return
    liveStore.set(message.isOpen)
    // Changes before the stream was open are in no event, and without a stream the time decides.
    void client.invalidateQueries({ predicate: ({ queryKey }) => isAnnounced(queryKey) })
  }
  if (message.type === 'gap') void client.invalidateQueries()
  if (message.type === 'change') gather(message.change)
}

let gathered: Change[] = []
let lastAt = 0

function gather(change: Change): void {
  gathered.push(change)
  if (gathered.length > 1) return
  const pause = lastAt + PAUSE_MS - Date.now()
  setTimeout(
    () => {
      const changes = gathered
      gathered = []
      lastAt = Date.now()
      void client.invalidateQueries({ predicate: ({ queryKey }) => changes.some((one) => reads(queryKey, one)) })
    },
    Math.max(pause, GATHERING_MS),
  )
}

/** Reads the stream until the signal. A stream that the service ended is opened again. */
async function readStream(signal: AbortSignal, send: (message: Message) => void): Promise<void> {
  while (!signal.aborted) {
    if (expiredStore.get()) {
      await signedIn(signal)
      continue
    }
    const source = new EventSource(requestOf('activity.stream').url)
    await new Promise<void>((resolve) => {
      source.onopen = () => send({ type: 'state', isOpen: true })
      source.addEventListener('change', ({ data }) => send({ type: 'change', change: JSON.parse(data) }))
      source.addEventListener('gap', () => send({ type: 'gap' }))
      source.onerror = () => {
        send({ type: 'state', isOpen: false })
        if (source.readyState === EventSource.CLOSED) resolve()
      }
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    source.close()
    send({ type: 'state', isOpen: false })
    if (!signal.aborted) await pause(RETRY_MS, signal)
  }
}

/** Web Locks exist only in secure contexts; elsewhere each tab has its own stream. */
async function withLock(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  if (!navigator.locks) return work()
  await navigator.locks.request(NAME, { signal }, work)
}

const isVisible = (): boolean => document.visibilityState === 'visible'

const visible = (signal: AbortSignal): Promise<void> => eventually(document, 'visibilitychange', isVisible, signal)

/** Aborted once the tab has been hidden for a time. */
function hiddenFor(ms: number, stopped: AbortSignal): AbortSignal {
  const hidden = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const check = () => {
    clearTimeout(timer)
    if (!isVisible()) timer = setTimeout(() => hidden.abort(), ms)
  }
  document.addEventListener('visibilitychange', check, { signal: AbortSignal.any([stopped, hidden.signal]) })
  check()
  return hidden.signal
}

function eventually(target: EventTarget, event: string, isTrue: () => boolean, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (isTrue()) return resolve()
    const ended = new AbortController()
    signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: ended.signal })
    const check = () => {
      if (!isTrue()) return
      ended.abort()
      resolve()
    }
    target.addEventListener(event, check, { signal: AbortSignal.any([signal, ended.signal]) })
  })
}

const signedIn = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const stop = sessionStore.subscribe(resolve)
    signal.addEventListener('abort', () => resolve(), { once: true })
    signal.addEventListener('abort', stop, { once: true })
  })

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer)
        resolve()
      },
      { once: true },
    )
  })
