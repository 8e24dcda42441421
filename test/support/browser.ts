/**
 * A real Chromium for tests, out of an npm package, so that `npm ci` is all it takes on Linux. Elsewhere, or to use
 * another one, CHROMIUM_PATH names the executable.
 *
 * It reaches this machine and nothing else: every other host name or address is unknown to it, and its own background
 * traffic is off.
 *
 * The package unpacks itself (220 MB, 1.5 s) to fixed paths in the temporary directory, where two test files at once
 * would run each other's half-written file. So it unpacks once, in a process of its own with a temporary directory of
 * its own, which is then renamed to its place in node_modules/.cache: whole or not at all.
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

/** Close it when done; that ends its processes and removes its profile. */
export async function launchBrowser(): Promise<Browser> {
  const own = process.env.CHROMIUM_PATH
  if (own) return chromium.launch({ executablePath: own, args: ARGUMENTS, timeout: LAUNCH_LIMIT_MS })
  const home = await unpacked()
  return chromium.launch({
    executablePath: join(home, 'chromium'),
    args: ARGUMENTS,
    timeout: LAUNCH_LIMIT_MS,
    // NSS and its kin are in the package too: a bare machine or container lacks them.
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
    // Another process was quicker.
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

/** The package's one family first, then what the machine has: text is seen, and nearly the same, on a machine without fonts. */
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
