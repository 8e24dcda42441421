/**
 * Launches a real Chromium from an npm package on Linux; CHROMIUM_PATH names another executable.
 *
 * - The browser reaches only this machine: other host names and addresses do not resolve, and background traffic is
 *   off.
 * - The package unpacks 220 MB to fixed paths in the temporary directory, which is unsafe for concurrent test files. A
 *   separate process therefore unpacks it once, in its own temporary directory, which is then renamed to
 *   node_modules/.cache: complete or absent.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Browser, chromium } from 'playwright-core'

const PACKAGE = join(import.meta.dirname, '../../node_modules/@sparticuz/chromium')
const CACHE = join(import.meta.dirname, '../../node_modules/.cache')
const UNPACK_LIMIT_MS = 120_000
const LAUNCH_LIMIT_MS = 30_000

const ARGUMENTS = [
  '--no-sandbox',
  '--no-zygote',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--no-pings',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-domain-reliability',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost',
]

/** Closing the browser ends its processes and removes its profile. */
export async function launchBrowser(): Promise<Browser> {
  const own = process.env.CHROMIUM_PATH
  if (own) return chromium.launch({ executablePath: own, args: ARGUMENTS, timeout: LAUNCH_LIMIT_MS })
  const home = await unpacked()
  return chromium.launch({
    executablePath: join(home, 'chromium'),
    args: ARGUMENTS,
    timeout: LAUNCH_LIMIT_MS,
    // The package contains NSS and related libraries, which minimal machines and containers lack.
    env: {
      ...process.env,
      LD_LIBRARY_PATH: join(home, 'al2023/lib'),
      FONTCONFIG_FILE: join(home, 'fonts.conf'),
    } as Record<string, string>,
  })
}

async function unpacked(): Promise<string> {
  const { version } = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8')) as { version: string }
  const home = join(CACHE, `chromium-${version}`)
  if (existsSync(home)) return home
  await mkdir(CACHE, { recursive: true })
  const stage = await mkdtemp(`${home}.`)
  try {
    await unpack(stage)
    await writeFile(join(stage, 'fonts.conf'), fontsConf(home))
    await rename(stage, home)
  } catch (error) {
    await rm(stage, { recursive: true, force: true })
    // Another process was first.
    if (!existsSync(home)) throw error
  }
  return home
}

async function unpack(stage: string): Promise<void> {
  const program = `
    import chromium, { inflate } from '@sparticuz/chromium'
    await chromium.executablePath()
    await inflate(${JSON.stringify(join(PACKAGE, 'bin/al2023.tar.br'))})
  `
  await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: import.meta.dirname,
    env: { ...process.env, TMPDIR: stage },
    timeout: UNPACK_LIMIT_MS,
  })
}

/** Prefers the package's font family, so that pages look nearly the same on a machine without fonts. */
function fontsConf(home: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${join(home, 'fonts/fonts')}</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${join(home, 'fonts-cache')}</cachedir>
  <alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
`
}
