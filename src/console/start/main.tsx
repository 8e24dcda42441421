/** Starts the console: session, modules of the enabled satellites, routes, shell. */
import '../style/index.css'
import { createRoot } from 'react-dom/client'
import { Forbidden } from '../components/base/problem.tsx'
import { Dropped } from '../components/lists/dropped.tsx'
import { Provider } from '../components/provider.tsx'
import { load } from '../data/load.ts'
import { notify } from '../data/notices.ts'
import { type Problem, toProblem } from '../data/problem.ts'
import { adopt, finishStart, followSession, readSession, type Session, sessionStore, signIn } from '../data/session.ts'
import { root, settings } from '../data/settings.ts'
import type { ConsoleModule, View } from '../module.ts'
import { registerModules } from '../routing/registry.ts'
import { createConsoleRouter, Routes } from '../routing/router.tsx'
import { Failed, Frame, NotFound } from '../shell/frame.tsx'
import shell from '../shell/index.tsx'
import { text } from '../shell/text.ts'

const page = createRoot(root)

/** Modules of the enabled satellites, and of parts that are always there. */
async function loadModules({ satellites }: Session): Promise<ConsoleModule[]> {
  const named = Object.entries(settings.modules).filter(([name]) => name === 'tenants' || satellites.includes(name))
  const loaded = await Promise.all(named.map(([name, url]) => loadModule(name, url)))
  return [shell, ...loaded.flatMap((module) => module ?? [])]
}

/** A module of the host that cannot be loaded leaves the others. */
async function loadModule(name: string, url: string): Promise<ConsoleModule | undefined> {
  try {
    return (await load(() => import(/* @vite-ignore */ url))).default
  } catch (error) {
    if (!settings.hostModules.includes(name)) throw error
    notify({ text: text.moduleFailed(name), detail: String(error), isError: true })
    return undefined
  }
}

/** Operations of the host have rules, and without a module of their satellite generic screens. */
async function registerHost({ satellites }: Session): Promise<void> {
  if (!settings.hostSatellites.some((name) => satellites.includes(name))) return
  try {
    const { genericModules, readHostOperations } = await load(() => import('../generic/modules.ts'))
    const operations = await readHostOperations()
    registerModules(genericModules(operations.filter(({ satellite }) => !(satellite in settings.modules))))
  } catch (error) {
    notify({ text: text.hostFailed, detail: String(error), isError: true })
  }
}

async function show(session: Session): Promise<void> {
  const modules = await loadModules(session)
  registerModules(modules)
  await registerHost(session)
  const tenant = modules.find(({ tenantFrame }) => tenantFrame)?.tenantFrame
  const tenantAt = modules.find(({ tenantAt }) => tenantAt)?.tenantAt
  const router = createConsoleRouter({
    Shell: Frame,
    Home: () => import('../shell/home.tsx'),
    Tenant: tenant as View,
    TenantAt: tenantAt,
    Dropped,
    NotFound,
    Forbidden,
    Failed,
  })
  page.render(
    <Provider>
      <Routes router={router} />
    </Provider>,
  )
}

async function showSignIn(problem?: Problem): Promise<void> {
  const { SignInPage } = await import('../shell/sign-in.tsx')
  const stop = sessionStore.subscribe(() => {
    const session = sessionStore.get()
    if (!session) return
    stop()
    void show(session)
  })
  page.render(<SignInPage problem={problem} />)
}

/** The code of a sign-in link is removed from the address, and so from the history, before its use. */
function takeCode(): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get('code') ?? undefined
  if (code) history.replaceState(null, '', location.pathname + location.search)
  return code
}

async function start(): Promise<void> {
  const code = takeCode()
  try {
    if (code) return await show(await signIn({ code }))
    const session = await readSession()
    if (!session) return showSignIn()
    adopt(session)
    await show(session)
  } catch (error) {
    await showSignIn(toProblem(error))
  }
}

followSession()
void start().then(finishStart)
