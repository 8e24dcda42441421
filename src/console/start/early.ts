/**
 * Runs before the first paint, while the libraries are being loaded: sets the theme, and requests the session and the list of the screen. A
 * classic script, which imports nothing; data/early.ts hands its responses over.
 */
const theme = localStorage.getItem('tenantry-theme')
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme

const { src } = document.currentScript as HTMLScriptElement // {prefix}/console/assets/early-….js
const { pathname: base } = new URL('..', src)
const prefix = base.slice(0, -'/console/'.length)

function request(path: string): Promise<Response> {
  const response = fetch(prefix + path, { headers: { accept: 'application/json' }, priority: 'high' })
  response.catch(() => undefined) // the reader reports the failure
  window.earlyRequests?.set(prefix + path, response)
  return response
}

/** The path of a list is the path of its operation. */
async function requestList(session: Response): Promise<void> {
  const path = `/${location.pathname.slice(base.length)}`
  if (!session.ok || location.search) return
  const { operations } = await session.clone().json()
  if (Object.values(operations).includes(`GET ${path}`)) await request(path)
}

// A sign-in link creates its session first.
if (!location.hash.startsWith('#code=')) {
  window.earlyRequests = new Map()
  request('/session')
    .then(requestList)
    .catch(() => undefined)
}

export {}
