import { importsOfVersions } from './copy-in-rows.versions.fixture.ts'
import { FAST_OWNERS } from './copy-rows.fixture.ts'

importsOfVersions(FAST_OWNERS)
