export default {
  serverExternalPackages: ['tenantry'],
  typescript: { ignoreBuildErrors: true },
}
