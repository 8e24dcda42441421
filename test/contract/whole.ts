/** All satellites, those as well that say nothing without a configuration: their coverage.fixture.ts has one. */

import { satellites } from '../../src/service/main.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import { parts } from './parts.ts'

export interface Whole {
  readonly satellites: readonly Satellite[]
  /** Ends what they were configured to talk to. */
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
