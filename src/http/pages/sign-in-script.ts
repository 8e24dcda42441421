/** The script of the sign-in page. It reads its paths from the form, so its text is constant. */
export const SIGN_IN_SCRIPT = `
const TIME_LIMIT_MS = 15000
const form = document.querySelector('form')
const field = document.querySelector('#token')
const error = document.querySelector('#error')
const status = document.querySelector('.status')
let busy = false

form.addEventListener('submit', (event) => {
  event.preventDefault()
  const token = field.value.trim()
  if (token) signIn({ token }, 'Signing in…')
  else fail('Enter an admin token.')
})
addEventListener('hashchange', redeemCode)
redeemCode()

function redeemCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code')
  if (!code) return
  history.replaceState(null, '', location.pathname + location.search)
  signIn({ code }, 'Opening your sign-in link…')
}

async function signIn(credential, progress) {
  if (busy) return
  work(progress)
  try {
    const response = await fetch(form.action, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, application/problem+json' },
      body: JSON.stringify(credential),
      credentials: 'same-origin',
      signal: AbortSignal.timeout(TIME_LIMIT_MS),
    })
    if (response.ok) goOn()
    else fail(await reason(response))
  } catch {
    fail('The service did not respond. Try again.')
  }
}

async function reason(response) {
  const fallback = 'The service returned status ' + response.status + '. Try again.'
  if (!(response.headers.get('content-type') ?? '').startsWith('application/problem+json')) return fallback
  const problem = await response.json()
  return problem.detail ?? problem.title ?? fallback
}

function goOn() {
  field.value = ''
  status.textContent = 'Signed in.'
  if (location.pathname.replace(/[/]+$/, '') === form.dataset.signIn) location.replace(form.dataset.home)
  else location.reload()
}

function work(progress) {
  busy = true
  form.setAttribute('aria-busy', 'true')
  field.removeAttribute('aria-invalid')
  error.textContent = ''
  status.textContent = progress
}

function fail(message) {
  busy = false
  form.removeAttribute('aria-busy')
  field.setAttribute('aria-invalid', 'true')
  status.textContent = ''
  error.textContent = message
  field.focus()
  field.select()
}
`
