/** Lists recorded releases, oldest first, and reads their files. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { VERSION } from '../../src/tenancy/version.ts'

export const releases = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort((one, other) => orderOf(one).localeCompare(orderOf(other), 'en', { numeric: true }))

export const lastRelease = releases.at(-1) ?? ''

/** The last release before the present version, also when that is recorded. */
export const formerRelease = releases.findLast((release) => release !== VERSION) ?? ''

/** A pre-release precedes its release: `0.2.0-alpha.1`, `0.2.0`. */
function orderOf(release: string): string {
  return release.includes('-') ? release : `${release}~`
}

export const recordedFile = (release: string, file: string): string => join(import.meta.dirname, release, file)

/** @param file JSON file of the release */
export const readRecorded = (release: string, file: string) =>
  JSON.parse(readFileSync(recordedFile(release, file), 'utf8'))
