/** Enables all satellites, with the configuration from their coverage.fixture.ts where it is required. */

import { satellites } from '../../src/service/main.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import { parts } from './parts.ts'

export interface Whole {
  readonly satellites: readonly Satellite[]
  /** Stops the external systems of the configuration. */
  end(): Promise<void>
}

export async function whole(): Promise<Whole> {
  const configured = await Promise.all(parts.flatMap(({ configured }) => configured?.() ?? []))
  return {
    satellites: satellites.map(
      (one) => configured.find(({ satellite }) => satellite.name === one.name)?.satellite ?? one,
    ),
    end: async () => void (await Promise.all(configured.map(({ end }) => end()))),
  }
}
