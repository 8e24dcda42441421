/**
 * Stores profiles in the configuration directory of the user: one file with URL and token for each, and the name of the current one.
 * - Only the user may read them. A file is replaced as a whole, so concurrent commands never see a part of it.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { z } from 'zod'
import { defineError, InvalidRequest } from '../../kernel/base/errors.ts'
import { ConfigurationError } from '../../service/config.ts'

export const ProfileNotFound = defineError('E_PROFILE_NOT_FOUND', 404, 'Profile not found')

const Profile = z.strictObject({ url: z.string().min(1), token: z.string().min(1) })
type Profile = z.output<typeof Profile>

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const ENDING = '.json'
const OTHERS = 0o077

export class Profiles {
  readonly #directory: string | undefined

  constructor({ XDG_CONFIG_HOME: xdg, HOME, USERPROFILE }: NodeJS.ProcessEnv) {
    const home = HOME || USERPROFILE
    // The XDG specification ignores relative paths.
    const base = xdg && isAbsolute(xdg) ? xdg : home && join(home, '.config')
    this.#directory = base ? join(base, 'tenantry') : undefined
  }

  async names(): Promise<string[]> {
    if (this.#directory === undefined) return []
    const files = await readdir(join(this.#directory, 'profiles')).catch(ifMissing([]))
    const names = files.filter((file) => file.endsWith(ENDING)).map((file) => file.slice(0, -ENDING.length))
    return names.filter((name) => NAME.test(name)).sort()
  }

  /** `E_PROFILE_NOT_FOUND` */
  async read(name: string): Promise<Profile> {
    const file = this.#fileOf(name)
    const text = await textOf(file)
    if (text === undefined) throw notFound(name)
    const profile = Profile.safeParse(jsonOf(text))
    if (!profile.success)
      throw new ConfigurationError([`${file}: must have url and token; create it with tenantry login`])
    return profile.data
  }

  write(name: string, profile: Profile): Promise<void> {
    return replace(this.#fileOf(name), `${JSON.stringify(profile)}\n`)
  }

  /** `E_PROFILE_NOT_FOUND` */
  async remove(name: string): Promise<void> {
    await unlink(this.#fileOf(name)).catch((error) => {
      throw error.code === 'ENOENT' ? notFound(name) : error
    })
    if ((await this.current()) === name) await this.use(undefined)
  }

  /** The profile of commands without `--profile`. It may have been removed since. */
  async current(): Promise<string | undefined> {
    if (this.#directory === undefined) return undefined
    return (await textOf(this.#currentFile()))?.trim() || undefined
  }

  /** @param name undefined: no profile is current */
  async use(name: string | undefined): Promise<void> {
    if (name === undefined) return rm(this.#currentFile(), { force: true })
    await this.read(name)
    await replace(this.#currentFile(), `${name}\n`)
  }

  #fileOf(name: string): string {
    if (!NAME.test(name)) {
      throw InvalidRequest(`The profile "${name}" must have letters, digits, ".", "_" and "-"; at most 64 characters.`)
    }
    return join(this.#known(), 'profiles', name + ENDING)
  }

  #currentFile(): string {
    return join(this.#known(), 'current-profile')
  }

  #known(): string {
    if (this.#directory === undefined) throw new ConfigurationError(['HOME or XDG_CONFIG_HOME: required for profiles'])
    return this.#directory
  }
}

const notFound = (name: string) =>
  ProfileNotFound(`Profile "${name}" not found. tenantry profile:list lists all; tenantry login adds one.`)

/** Undefined if the file does not exist. Rejects a file that other users may read or change. */
async function textOf(path: string): Promise<string | undefined> {
  const file = await open(path).catch(ifMissing(undefined))
  if (!file) return undefined
  try {
    const { mode } = await file.stat()
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0) {
      throw new ConfigurationError([`${path}: other users can read it; run: chmod 600 ${path}`])
    }
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

async function replace(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${randomUUID()}`
  try {
    await writeFile(temporary, text, { mode: 0o600, flag: 'wx' })
    await rename(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
}

const ifMissing =
  <T>(value: T) =>
  (error: NodeJS.ErrnoException): T => {
    if (error.code === 'ENOENT') return value
    throw error
  }

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
