#include "exec/python.h"

#include "base/error.h"
#include "base/self.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Finds the package without importing it, as that would import torch. */
#define FIND_AND_RUN                                                                 \
    "import importlib.util, runpy, sys\n"                                            \
    "spec = importlib.util.find_spec('prony')\n"                                     \
    "if spec is None:\n"                                                             \
    "    sys.exit('the interpreter that PRONY_PYTHON names has no package prony')\n" \
    "runpy.run_path(spec.submodule_search_locations[0] + '/_executor.py', "          \
    "run_name='__main__')\n"

/* Of the build folder, and of a wheel, where the program is in prony/_bundle/bin. */
static const char *const places[] = {"python/prony/_executor.py", "../../_executor.py"};

static bool find_script(char path[PATH_MAX + 64])
{
    char folder[PATH_MAX];
    if (!prn_own_folder(folder))
        return false;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(places); i++) {
        snprintf(path, PATH_MAX + 64, "%s/%s", folder, places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

void prn_python_become(void)
{
    char script[PATH_MAX + 64];
    char *python = secure_getenv("PRONY_PYTHON");
    if (!python || !*python)
        return;
    /* Isolated: nothing of the environment or of this folder is imported. */
    char isolated[] = "-I";
    char unwritten[] = "-B";
    char command[] = "-c";
    char code[] = FIND_AND_RUN;
    const bool found = find_script(script);
    /* A virtual environment is found by the name that the interpreter is called by. */
    char *argv[] = {python, isolated, unwritten, found ? script : command, found ? NULL : code,
                    NULL};
    execvp(python, argv);
}
