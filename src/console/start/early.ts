/**
 * Runs before the first paint, while the libraries are being loaded: sets theme and height of rows, and requests the session and the list of
 * the screen. A classic script, which imports nothing; data/early.ts hands its responses over.
 */
for (const name of ['theme', 'density']) {
  const value = localStorage.getItem(`tenantry-${name}`)
  if (value) document.documentElement.dataset[name] = value
}

const { src } = document.currentScript as HTMLScriptElement // {prefix}/console/assets/early-….js
const { pathname: base } = new URL('..', src)
const prefix = base.slice(0, -'/console/'.length)

function request(path: string): Promise<Response> {
  const response = fetch(prefix + path, { headers: { accept: 'application/json' }, priority: 'high' })
  response.catch(() => undefined) // the reader reports the failure
  window.earlyRequests?.set(prefix + path, response)
  return response
}

/** Names of Tenantry's lists, by http/console/build.ts. */
declare const LISTS: readonly string[]

/** The path of a list of Tenantry is the path of its operation. */
async function requestList(session: Response): Promise<void> {
  const path = `/${location.pathname.slice(base.length)}`
  if (!session.ok || location.search) return
  const { operations } = await session.clone().json()
  if (LISTS.some((name) => operations[name] === `GET ${path}`)) await request(path)
}

// A sign-in link creates its session first.
if (!location.hash.startsWith('#code=')) {
  window.earlyRequests = new Map()
  request('/session')
    .then(requestList)
    .catch(() => undefined)
}

export {}
