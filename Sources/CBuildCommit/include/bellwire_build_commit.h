#pragma once

/// The first digits of the commit that was built, or `unknown`.
const char *bellwire_build_commit(void);
