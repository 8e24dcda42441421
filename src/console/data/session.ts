/** The session: its name, and method and path of each permitted operation. */
import type { OperationName, Result } from '../api/contract.ts'
import { get } from './early.ts'
import { notify } from './notices.ts'
import { problemOf, unreachable } from './problem.ts'
import { settings } from './settings.ts'
import { createStore, useStore } from './store.ts'
import { text } from './text.ts'

export type Session = Result<'session.get'>

/** Undefined: not signed in. */
export const sessionStore = createStore<Session | undefined>(undefined)
/** Whether the session ended while the console was open. Calls wait for the next sign-in. */
export const expiredStore = createStore(false)
/** Version of the service, if it differs from the version of this page. */
export const newVersionStore = createStore<string | undefined>(undefined)

/** The session of all tabs, which share its cookie. Null: signed out. */
interface Shared {
  readonly name: string | null
}
let channel: BroadcastChannel | undefined
/** Messages of other tabs during the start of this one; undefined after it. */
let early: Shared[] | undefined = []
/** Start of each key of the console in the storage of the tab, which other pages of the origin share. */
const OWN = 'tenantry-'
/** Key of the router's scroll positions. */
const ROUTER = 'tsr-scroll-restoration'
/** Key of the identity whose data the storage of this tab has. */
const OWNER = `${OWN}owner`

let waiting = Promise.withResolvers<void>()

/** @throws Problem, but returns undefined for a request without a session */
export async function readSession(): Promise<Session | undefined> {
  const response = await get(`${settings.prefix}/session`).catch(() => {
    throw unreachable()
  })
  if (response.status === 401) return undefined
  if (!response.ok) throw await problemOf(response)
  return response.json()
}

/** Exchanges a token, or the code of a sign-in link, for the session cookie. @throws Problem */
export async function signIn(credential: { token: string } | { code: string }): Promise<Session> {
  const response = await fetch(`${settings.prefix}/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(credential),
  }).catch(() => {
    throw unreachable()
  })
  if (!response.ok) throw await problemOf(response)
  const session = await readSession()
  if (!session) throw unreachable()
  adopt(session)
  return session
}

/** Makes a session the present one, and repeats the calls that wait for it. Another identity loads the page again. */
export function adopt(session: Session): void {
  const former = sessionStore.get()
  if (former && former.name !== session.name) {
    location.reload()
    return
  }
  takeTab(session.name)
  share(session.name)
  if (former && former.version !== session.version) newVersionStore.set(session.version)
  sessionStore.set(session)
  expiredStore.set(false)
  waiting.resolve()
  waiting = Promise.withResolvers<void>()
}

/** Resolves after the next sign-in. */
export function nextSignIn(): Promise<void> {
  expiredStore.set(true)
  return waiting.promise
}

/** Keeps the page, with a message, if the session could not be ended. */
export async function signOut(): Promise<void> {
  const response = await fetch(`${settings.prefix}/session`, { method: 'DELETE' }).catch(() => undefined)
  if (!response || (!response.ok && response.status !== 401)) {
    notify({ text: text.stillSignedIn, isError: true })
    return
  }
  share(null)
  addEventListener('pagehide', clearTab) // the router stores its positions before
  location.assign(`${settings.prefix}/console/`)
}

/** Reloads a tab after another tab signs out or changes the operator. Messages have no effect until the start has finished. */
export function followSession(): void {
  channel = new BroadcastChannel(`tenantry-session ${settings.prefix}`)
  channel.onmessage = async ({ data }: MessageEvent<Shared>) => {
    if (early) return void early.push(data)
    if (presentName() !== data.name) return location.reload()
    if (!expiredStore.get()) return
    const session = await readSession().catch(() => undefined)
    if (session) adopt(session)
  }
}

/** Called when the start has finished. A message of another operator can be older than the sign-in of this tab, so the session is read again. */
export async function finishStart(): Promise<void> {
  const isChanged = early?.some(({ name }) => name !== presentName())
  early = undefined
  if (!isChanged) return
  const present = sessionStore.get()
  const session = await readSession().catch(() => present)
  if ((session?.name ?? null) !== presentName()) location.reload()
}

const presentName = (): Shared['name'] => sessionStore.get()?.name ?? null

const share = (name: Shared['name']): void => channel?.postMessage({ name } satisfies Shared)

/** Deletes what this tab remembers of another identity. */
function takeTab(name: string): void {
  if (sessionStorage.getItem(OWNER) === name) return
  clearTab()
  sessionStorage.setItem(OWNER, name)
}

function clearTab(): void {
  for (const key of Object.keys(sessionStorage))
    if (key.startsWith(OWN) || key.startsWith(ROUTER)) sessionStorage.removeItem(key)
}

export function useSession(): Session {
  const session = useStore(sessionStore)
  if (!session) throw new Error('a component that needs a session is shown without one')
  return session
}

/** Whether the session permits all of these operations. */
export const isPermitted = (...names: readonly OperationName[]): boolean => {
  const { operations = {} } = sessionStore.get() ?? {}
  return names.every((name) => name in operations)
}
