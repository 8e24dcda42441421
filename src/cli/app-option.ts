/** Takes `--app <file>`, which may precede the command, from the command line. */

import { readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { appPath } from '../service/app-file.ts'

const NAMES = ['--app', '--config']

interface Taken {
  /** Words without the option. */
  readonly argv: readonly string[]
  /** Values of the option; several are an error. */
  readonly apps: readonly string[]
}

/** An option without a value stays, and so do words after `--`. */
export function takeApp(given: readonly string[]): Taken {
  const end = given.includes('--') ? given.indexOf('--') : given.length
  const argv: string[] = []
  const apps: string[] = []
  for (let index = 0; index < given.length; index++) {
    const word = given[index] ?? ''
    const [name = '', ...value] = word.split('=')
    const isOption = NAMES.includes(name) && index < end
    if (isOption && value.length > 0) apps.push(value.join('='))
    else if (isOption && index + 1 < end) apps.push(given[++index] ?? '')
    else argv.push(word)
  }
  return { argv, apps: [...new Set(apps)] }
}

/** The program of the copy of `tenantry` that the file of the installation resolves. Undefined: it is this copy, or there is none. */
export function otherProgram(argv: readonly string[], env: NodeJS.ProcessEnv): string | undefined {
  const path = appPath(process.cwd(), takeApp(argv).apps[0], env)
  const manifest = path === undefined ? undefined : manifestFor(path)
  const own = realpathSync(fileURLToPath(new URL('../../package.json', import.meta.url)))
  if (manifest === undefined || manifest === own) return undefined
  return resolve(dirname(manifest), JSON.parse(readFileSync(manifest, 'utf8')).bin.tenantry)
}

function manifestFor(path: string): string | undefined {
  try {
    return realpathSync(createRequire(path).resolve('tenantry/package.json'))
  } catch {
    return undefined // a JSON file needs no copy of its own
  }
}
