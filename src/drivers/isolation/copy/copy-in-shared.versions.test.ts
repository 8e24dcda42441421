import { importsOfVersions } from './copy-in-shared.versions.fixture.ts'
import { FAST_OWNERS } from './rows.fixture.ts'

importsOfVersions(FAST_OWNERS)
